#pragma once
// The JSON documents of an image: index, manifest, configuration (OCI image-spec 1.1 and the Docker
// formats that it came from), and the manifest.json of `docker save`.
//
// Every document comes from outside: its size, nesting, number of values and each text are bounded,
// wrong types and unknown media types are refused with a line that says which and where. Throws
// Error{Invalid}, {Exhausted} for a bound and {Unsupported} for what is well formed but not an
// image that mvm can take.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mvm/oci/digest.h"
#include "mvm/proto/health.h"

namespace mvm::oci {

inline constexpr size_t kMaxDocument = size_t{4} << 20;  // what registries must take at least
inline constexpr size_t kMaxLayers = 512;
inline constexpr size_t kMaxIndexEntries = 1024;
inline constexpr size_t kMaxConfigTexts = 1024;  // entries of each list and map of a config
inline constexpr size_t kMaxConfigText = size_t{64} << 10;
inline constexpr uint64_t kMaxBlob = uint64_t{1} << 40;

struct Platform {
  std::string os;
  std::string architecture;
  std::string variant;  // may be empty
  std::string text() const;
  bool operator==(const Platform&) const = default;
};
Platform host_platform();  // what a guest of this host can run
// "linux/amd64", "linux/arm/v7"; throws Error{Invalid}.
Platform parse_platform(std::string_view text);

struct Descriptor {
  std::string media_type;
  Digest digest;
  uint64_t size = 0;
  std::optional<Platform> platform;
  std::string reference;  // org.opencontainers.image.ref.name; may be empty
};

struct Index {
  std::vector<Descriptor> manifests;
};

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;
};

struct Config {
  Platform platform;
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;
  std::string user;
  std::string workdir;
  std::string stop_signal;
  std::optional<proto::HealthCheck> health;  // nothing: none, or said to be none
  std::map<std::string, std::string> labels;
  std::vector<Digest> diff_ids;  // of the layers, uncompressed
};

// One image of a `docker save` archive: paths of members.
struct DockerImage {
  std::string config;
  std::vector<std::string> tags;
  std::vector<std::string> layers;
};

// `media_type` is what whoever named it said; may be empty, then the document must say it itself.
std::variant<Index, Manifest> parse_document(std::string_view json, std::string_view media_type);
Config parse_config(std::string_view json);
std::vector<DockerImage> parse_docker_images(std::string_view json);

// The entry of an index for a platform. An index that names no platforms must hold one manifest.
// Throws Error{NotFound} that lists what there is.
const Descriptor& choose(const Index& index, const Platform& wanted);

// What the Accept header of a request for a manifest holds.
std::string accepted_media_types();

}
