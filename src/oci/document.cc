#include "mvm/oci/document.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/process.h"

#include "health.h"
#include "json.h"

namespace mvm::oci {
namespace {

constexpr std::array<std::string_view, 2> kIndexTypes{
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json"};
constexpr std::array<std::string_view, 2> kManifestTypes{
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json"};
constexpr std::array<std::string_view, 2> kConfigTypes{
    "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"};
constexpr std::array<std::string_view, 9> kLayerTypes{
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Platform platform_of(const Json& json, const std::string& where) {
  return {text_of(json, "os", where), text_of(json, "architecture", where),
          text_of(json, "variant", where)};
}

Descriptor descriptor_of(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(Kind::Invalid, where + " must be an object");
  const Json* size = member(json, "size");
  if (size == nullptr || !size->is_number_unsigned())
    throw Error(Kind::Invalid, where + ".size must be a number of bytes");
  Descriptor descriptor{
      text_of(json, "mediaType", where),
      while_doing(where, [&] { return Digest::parse(text_of(json, "digest", where)); }),
      size->get<uint64_t>(), std::nullopt, ""};
  if (descriptor.size > kMaxBlob)
    throw Error(Kind::Exhausted, where + " is larger than " + format_size(kMaxBlob));
  if (const Json* platform = member(json, "platform"))
    descriptor.platform = platform_of(*platform, where + ".platform");
  if (const Json* annotations = member(json, "annotations"))
    descriptor.reference =
        text_of(*annotations, "org.opencontainers.image.ref.name", where + ".annotations");
  return descriptor;
}

Index index_of(const Json& json) {
  Index index;
  const Json& manifests = array_of(json, "manifests", "index", kMaxIndexEntries);
  for (size_t i = 0; i < manifests.size(); ++i)
    index.manifests.push_back(
        descriptor_of(manifests[i], "index.manifests[" + std::to_string(i) + "]"));
  return index;
}

Descriptor config_descriptor(const Json& json) {
  const Json* value = member(json, "config");
  if (value == nullptr) throw Error(Kind::Invalid, "manifest.config is missing");
  Descriptor config = descriptor_of(*value, "manifest.config");
  if (!is_one_of(kConfigTypes, config.media_type))
    throw Error(Kind::Unsupported, "this is no image: its configuration is of the type \"" +
                                       printable(config.media_type) + "\"");
  return config;
}

Manifest manifest_of(const Json& json) {
  Manifest manifest{config_descriptor(json), {}};
  const Json& layers = array_of(json, "layers", "manifest", kMaxLayers);
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string where = "manifest.layers[" + std::to_string(i) + "]";
    manifest.layers.push_back(descriptor_of(layers[i], where));
    const std::string& type = manifest.layers.back().media_type;
    if (type == "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")
      throw Error(Kind::Unsupported,
                  where + " is kept outside of the registry (a foreign layer); such are refused");
    if (!is_one_of(kLayerTypes, type))
      throw Error(Kind::Unsupported, where + " is of the type \"" + printable(type) +
                                         "\", which mvm does not know; layers are tar archives, "
                                         "plain or with gzip or zstd");
  }
  return manifest;
}

bool fits(const Platform& have, const Platform& wanted) {
  if (have.os != wanted.os || have.architecture != wanted.architecture) return false;
  if (have.variant == wanted.variant) return true;
  // An arm64 without a variant is v8; x86-64 has levels, and the first needs nothing.
  if (wanted.variant.empty())
    return have.variant == "v8" || have.variant == "v1" || have.architecture == "arm";
  return have.variant.empty();
}

}

std::string Platform::text() const {
  return os + "/" + architecture + (variant.empty() ? "" : "/" + variant);
}

Platform host_platform() {
#if defined(__aarch64__)
  return {"linux", "arm64", ""};
#else
  return {"linux", "amd64", ""};
#endif
}

Platform parse_platform(std::string_view text) {
  const auto parts = split(text, '/');
  const bool good = (parts.size() == 2 || parts.size() == 3) &&
                    std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
                      return !name_complaint(part).has_value();
                    });
  if (!good)
    throw Error(Kind::Invalid,
                "platform \"" + printable(text) + "\": must be OS/ARCHITECTURE[/VARIANT]");
  return {std::string(parts[0]), std::string(parts[1]),
          parts.size() == 3 ? std::string(parts[2]) : ""};
}

std::variant<Index, Manifest> parse_document(std::string_view text, std::string_view media_type) {
  const Json json = parse_json(text, "the image's manifest");
  if (!json.is_object()) throw Error(Kind::Invalid, "the image's manifest must be an object");
  const Json* version = member(json, "schemaVersion");
  if (version == nullptr || !version->is_number_unsigned() || *version != 2U)
    throw Error(Kind::Unsupported,
                "the manifest's schema version is not 2; registries gave the first one up, so the "
                "image has to be built or pushed again");
  const std::string said = text_of(json, "mediaType", "manifest");
  // A document that is one thing to one reader and another to the next is refused
  // (image-spec 1.0.2, CVE-2021-41190).
  if (!said.empty() && !media_type.empty() && said != media_type)
    throw Error(Kind::Invalid, "the manifest says to be \"" + printable(said, 80) +
                                   "\" and was named as \"" + printable(media_type, 80) + "\"");
  if (json.contains("manifests") && json.contains("layers"))
    throw Error(Kind::Invalid, "the manifest has both layers and manifests");
  const std::string type = said.empty() ? std::string(media_type) : said;
  if (is_one_of(kIndexTypes, type)) return index_of(json);
  if (is_one_of(kManifestTypes, type)) return manifest_of(json);
  if (!type.empty())
    throw Error(Kind::Unsupported,
                "\"" + printable(type) + "\" is a media type that mvm does not know");
  if (json.contains("manifests")) return index_of(json);
  return manifest_of(json);
}

Config parse_config(std::string_view text) {
  const Json json = parse_json(text, "the image's configuration");
  Config config;
  config.platform = platform_of(json, "config");
  if (config.platform.os.empty() || config.platform.architecture.empty())
    throw Error(Kind::Invalid, "config: os and architecture must be there");
  const Json* rootfs = member(json, "rootfs");
  if (rootfs == nullptr || text_of(*rootfs, "type", "config.rootfs") != "layers")
    throw Error(Kind::Invalid, "config.rootfs.type must be \"layers\"");
  for (const std::string& digest : texts_of(*rootfs, "diff_ids", "config.rootfs"))
    config.diff_ids.push_back(
        while_doing("config.rootfs.diff_ids", [&] { return Digest::parse(digest); }));
  const Json* run = member(json, "config");
  if (run == nullptr) return config;
  if (!run->is_object()) throw Error(Kind::Invalid, "config.config must be an object");
  config.entrypoint = texts_of(*run, "Entrypoint", "config");
  config.cmd = texts_of(*run, "Cmd", "config");
  config.env = texts_of(*run, "Env", "config");
  for (const std::string& entry : config.env)
    if (entry.find('=') == entry.npos || entry.front() == '=')
      throw Error(Kind::Invalid, "config.Env: \"" + printable(entry, 40) + "\" is not NAME=VALUE");
  config.user = text_of(*run, "User", "config");
  config.workdir = text_of(*run, "WorkingDir", "config");
  config.stop_signal = text_of(*run, "StopSignal", "config");
  if (!config.stop_signal.empty() && !sys::signal_number(config.stop_signal))
    throw Error(Kind::Invalid,
                "config.StopSignal: \"" + printable(config.stop_signal, 40) + "\" is no signal");
  config.health = health_of(*run);
  if (const Json* labels = member(*run, "Labels")) {
    if (!labels->is_object()) throw Error(Kind::Invalid, "config.Labels must be an object");
    if (labels->size() > kMaxConfigTexts)
      throw Error(Kind::Exhausted, "config.Labels has too many entries");
    for (const auto& [key, value] : labels->items())
      config.labels[key] = text_of(*labels, key.c_str(), "config.Labels");
  }
  return config;
}

std::vector<DockerImage> parse_docker_images(std::string_view text) {
  const Json json = parse_json(text, "manifest.json");
  if (!json.is_array() || json.size() > kMaxIndexEntries)
    throw Error(Kind::Invalid, "manifest.json must be an array of images");
  std::vector<DockerImage> images;
  for (const Json& entry : json) {
    DockerImage image{text_of(entry, "Config", "manifest.json"),
                      texts_of(entry, "RepoTags", "manifest.json"),
                      texts_of(entry, "Layers", "manifest.json")};
    if (image.config.empty()) throw Error(Kind::Invalid, "manifest.json: Config is missing");
    if (image.layers.size() > kMaxLayers)
      throw Error(Kind::Exhausted,
                  "manifest.json: more than " + std::to_string(kMaxLayers) + " layers");
    images.push_back(std::move(image));
  }
  return images;
}

const Descriptor& choose(const Index& index, const Platform& wanted) {
  if (index.manifests.size() == 1 && !index.manifests.front().platform)
    return index.manifests.front();
  const Descriptor* found = nullptr;
  std::string there;
  for (const Descriptor& entry : index.manifests) {
    if (!entry.platform) continue;
    if (entry.platform->os != "unknown")  // attestations
      there += (there.empty() ? "" : ", ") + printable(entry.platform->text(), 40);
    if (!fits(*entry.platform, wanted)) continue;
    // The same variant wins over one that merely fits; among equals the first.
    const bool exact = entry.platform->variant == wanted.variant;
    if (found == nullptr || (exact && found->platform->variant != wanted.variant)) found = &entry;
  }
  if (found != nullptr) return *found;
  throw Error(Kind::NotFound,
              "there is no image for " + wanted.text() +
                  (there.empty() ? "; no platform is named" : "; there is: " + there));
}

std::string accepted_media_types() {
  std::string types;
  for (const auto& list : {kManifestTypes, kIndexTypes})
    for (const std::string_view type : list) types.append(types.empty() ? "" : ", ").append(type);
  return types;
}

}
