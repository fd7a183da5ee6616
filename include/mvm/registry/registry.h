#pragma once
// Images in registries (OCI distribution-spec 1.1, "Pull"): a source for image::import_oci that
// resolves a reference to verified documents and downloads layers, several at a time, into the
// store's blobs.
//
// What a registry says is hostile: documents and blobs end at their promised size, digests are
// verified, redirects never lead from TLS to plain HTTP, and what is secret goes only to whom it is
// meant for. A cut connection is taken up again where it ended, a bounded number of times.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mvm/image/import.h"
#include "mvm/image/oci_source.h"
#include "mvm/oci/reference.h"
#include "mvm/registry/credentials.h"
#include "mvm/registry/transport.h"
#include "mvm/store/blobs.h"

namespace mvm::registry {

inline constexpr std::string_view kSourceKind = "registry";  // of images that came from one
inline constexpr int kMaxRedirects = 5;
// Tries of one request without a byte of progress between them, and in all.
inline constexpr int kMaxTries = 6;
inline constexpr int kMaxResumes = 100;

// data/registries.json: {"mirrors": {"docker.io": ["https://mirror.example"]},
//                        "require_digest": true}
struct Settings {
  std::map<std::string, std::vector<std::string>> mirrors;  // by host; tried in order, before it
  bool require_digest = false;                              // refuse references that are not pinned
};
Settings parse_settings(std::string_view json, std::string_view where);
Settings load_settings(const std::string& path);  // an absent file is the default

struct Options {
  Settings settings;
  TransportOptions transport;
  std::function<std::optional<Credentials>(std::string_view host)> credentials;
  unsigned parallel = 4;                   // downloads at once
  std::chrono::milliseconds backoff{250};  // before the second try; doubles
};

class RegistrySource : public image::OciSource {
 public:
  // `progress` gets the bytes downloaded; it is called from the thread that calls resolve() and
  // open_layer(), and may throw to give up.
  RegistrySource(const store::Blobs& blobs, oci::Reference reference, Options options,
                 image::Progress progress = {});
  ~RegistrySource() override;

  std::string_view kind() const override { return kSourceKind; }
  // Throws Error: Denied (credentials, policy), NotFound, Unavailable, Invalid (what it says is
  // wrong).
  image::OciImage resolve(const image::Selection& selection) override;
  bool has_layer(const image::Layer& layer) override;
  bool distrust(const image::Layer& layer) override;
  // Waits until the layer is here.
  image::Blob open_layer(const image::Layer& layer) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}
