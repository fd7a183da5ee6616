#pragma once
// References to images in registries: [HOST[:PORT]/]PATH[:TAG][@DIGEST]
// (OCI distribution-spec, "Pulling manifests"; the host is told from the path as Docker does).

#include <optional>
#include <string>
#include <string_view>

#include "mvm/oci/digest.h"

namespace mvm::oci {

inline constexpr std::string_view kDefaultHost = "docker.io";
inline constexpr std::string_view kDefaultTag = "latest";
inline constexpr size_t kMaxRepository = 255;  // host and path together
inline constexpr size_t kMaxTag = 128;

struct Reference {
  std::string host;  // "docker.io", "localhost:5000"; lower case
  std::string path;  // "library/python"
  std::string tag;   // "latest" when neither tag nor digest was given; else may be empty
  std::optional<Digest> digest;  // pins; the tag is then for people alone

  std::string repository() const { return host + "/" + path; }
  std::string text() const;
  bool operator==(const Reference&) const = default;
};

// Throws Error{Invalid} with the complaint. "python" is docker.io/library/python:latest.
Reference parse_reference(std::string_view text);

// Whether a text that may be a local image's name can only mean an image in a registry: it has a
// path or a digest.
bool names_registry(std::string_view text);

// Loopback addresses and localhost, with or without a port: the only registries that are spoken to
// without TLS.
bool is_loopback(std::string_view host);

}
