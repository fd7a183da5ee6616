#pragma once
// Where OCI images come from: something that resolves to one image's documents and gives out its
// layers. Documents are verified by whoever makes an OciImage; layers while they are read.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/oci/digest.h"
#include "mvm/oci/document.h"
#include "mvm/sys/fd.h"

namespace mvm::image {

// A range of a regular file, read with pread.
struct Blob {
  sys::Fd fd;
  uint64_t offset = 0;
  uint64_t size = 0;
  bool verified = false;  // by the source, just now: its bytes are what the layer's digest promises
};

struct Layer {
  std::optional<oci::Digest> digest;  // of the blob; an archive of `docker save` names none
  uint64_t size = 0;                  // of the blob, where there is a digest
  oci::Digest diff_id;                // of what it unpacks to
  std::string place;                  // what the source finds it by, and messages show
};

struct OciImage {
  oci::Digest digest;                // of the manifest; of the configuration without one
  std::optional<oci::Digest> index;  // that the manifest was chosen from
  oci::Config config;
  std::vector<Layer> layers;  // from the lowest
  std::string reference;      // the name it has there; may be empty
};

// Which one, where there are several.
struct Selection {
  oci::Platform platform = oci::host_platform();
  std::optional<std::string> reference;
};

class OciSource {
 public:
  virtual ~OciSource() = default;
  virtual std::string_view kind() const = 0;  // "oci-layout", "oci-archive", ...
  virtual OciImage resolve(const Selection& selection) = 0;
  virtual Blob open_layer(const Layer& layer) = 0;
  // Whether open_layer would give it at once.
  virtual bool has_layer(const Layer&) { return true; }
  // What open_layer gave cannot be read, and may have been damaged in a store of the source's own.
  // Returns whether it got rid of it, so that the next try gets it anew.
  virtual bool distrust(const Layer&) { return false; }
};

// The source that a path is by its content: an OCI layout in a directory or a tar archive, or a
// `docker save` archive; a tar archive may be compressed, and is then inflated into a file from
// `scratch` (unlinked, for reading and writing) of at most `limit` bytes. Nothing when it is
// something else.
std::unique_ptr<OciSource> open_oci_source(const std::string& path, uint64_t limit,
                                           const std::function<sys::Fd()>& scratch);

// Documents by digest, for sources that are addressed so. `read` gives at most oci::kMaxDocument
// bytes, not yet verified.
using ReadDocument = std::function<std::string(const oci::Descriptor&)>;
// From a descriptor (of an index or a manifest) to the image: every document verified, the platform
// chosen and checked.
OciImage resolve_image(const oci::Descriptor& top, const Selection& selection,
                       const ReadDocument& read);
// The same for a document that is already here, under its digest.
OciImage resolve_image(const oci::Digest& digest, std::string_view document,
                       std::string_view media_type, const Selection& selection,
                       const ReadDocument& read);

}
