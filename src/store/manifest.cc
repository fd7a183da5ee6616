// manifest.json, written by us and read back with suspicion: the directory is the user's, and a
// newer mvm may have written it.

#include <limits>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/json/json.h"
#include "mvm/store/images.h"

namespace mvm::store {

using Json = json::Value;

static Json health_json(const proto::HealthCheck& health) {
  return {{"command", health.command},
          {"interval_ms", health.interval_ms},
          {"timeout_ms", health.timeout_ms},
          {"start_period_ms", health.start_period_ms},
          {"start_interval_ms", health.start_interval_ms},
          {"retries", health.retries}};
}

// Any other number would be converted, silently or in no defined way.
template <typename Number>
static void number_at(const Json& object, const char* key, Number& into, std::string_view where) {
  const Json& value = object.at(key);
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<Number>::max()))
    throw Error(Kind::Invalid, std::string(where) + ": " + key + " is no number that it can be");
  into = static_cast<Number>(value.get<uint64_t>());
}

static proto::HealthCheck health_from(const Json& json, std::string_view where) {
  proto::HealthCheck health;
  json.at("command").get_to(health.command);
  number_at(json, "interval_ms", health.interval_ms, where);
  number_at(json, "timeout_ms", health.timeout_ms, where);
  number_at(json, "start_period_ms", health.start_period_ms, where);
  number_at(json, "start_interval_ms", health.start_interval_ms, where);
  number_at(json, "retries", health.retries, where);
  if (const auto why = health.complaint())
    throw Error(Kind::Invalid, std::string(where) + ": config.health: " + *why);
  return health;
}

std::string manifest_to_json(const Manifest& manifest) {
  const ImageConfig& config = manifest.config;
  Json json = {
      {"version", manifest.version},
      {"name", manifest.name},
      {"created", manifest.created},
      {"source",
       {{"kind", manifest.source_kind},
        {"path", manifest.source_path},
        {"digest", manifest.source_digest},
        {"index", manifest.source_index},
        {"key", manifest.source_key},
        {"layers", manifest.layers}}},
      {"root",
       {{"file", "root.erofs"}, {"digest", "sha256:" + manifest.digest}, {"size", manifest.size}}},
      {"files", manifest.files},
      {"content_bytes", manifest.content_bytes},
      {"config",
       {{"entrypoint", config.entrypoint},
        {"cmd", config.cmd},
        {"env", config.env},
        {"user", config.user},
        {"workdir", config.workdir},
        {"stop_signal", config.stop_signal},
        {"labels", config.labels}}},
  };
  if (config.health) json["config"]["health"] = health_json(*config.health);
  if (!config.kernel.empty()) json["config"]["kernel"] = config.kernel;
  // File names need not be UTF-8; what cannot be JSON is shown as U+FFFD rather than refused.
  return json::dump(json, 2) + "\n";
}

Manifest manifest_from_json(std::string_view text, std::string_view where) {
  if (text.empty()) throw Error(Kind::Invalid, std::string(where) + " is empty");
  const auto parsed = json::parse_object(text);
  if (!parsed) throw Error(Kind::Invalid, std::string(where) + " is no JSON object");
  try {
    const Json& json = *parsed;
    int version = 0;
    number_at(json, "version", version, where);
    if (version < 1) throw Error(Kind::Invalid, std::string(where) + ": it has no such version");
    if (version > kManifestVersion)
      throw Error(Kind::Unsupported, std::string(where) + ": written by a newer mvm (version " +
                                         std::to_string(version) + ")");
    Manifest manifest;
    manifest.version = version;
    json.at("name").get_to(manifest.name);
    json.at("created").get_to(manifest.created);
    json.at("source").at("kind").get_to(manifest.source_kind);
    json.at("source").at("path").get_to(manifest.source_path);
    // Older manifests lack what came with OCI images.
    const auto later = [](const Json& object, const char* key, auto& into) {
      if (object.contains(key)) object.at(key).get_to(into);
    };
    const Json& source = json.at("source");
    later(source, "digest", manifest.source_digest);
    later(source, "index", manifest.source_index);
    later(source, "key", manifest.source_key);
    later(source, "layers", manifest.layers);
    json.at("root").at("digest").get_to(manifest.digest);
    number_at(json.at("root"), "size", manifest.size, where);
    number_at(json, "files", manifest.files, where);
    number_at(json, "content_bytes", manifest.content_bytes, where);
    const Json& config = json.at("config");
    config.at("entrypoint").get_to(manifest.config.entrypoint);
    config.at("cmd").get_to(manifest.config.cmd);
    config.at("env").get_to(manifest.config.env);
    config.at("user").get_to(manifest.config.user);
    config.at("workdir").get_to(manifest.config.workdir);
    later(config, "stop_signal", manifest.config.stop_signal);
    later(config, "labels", manifest.config.labels);
    if (config.contains("health")) manifest.config.health = health_from(config.at("health"), where);
    later(config, "kernel", manifest.config.kernel);
    // It is looked for as a name, and must not be a path.
    if (!manifest.config.kernel.empty() && name_complaint(manifest.config.kernel))
      throw Error(Kind::Invalid, std::string(where) + ": config.kernel is no kernel's name");
    if (!manifest.digest.starts_with("sha256:"))
      throw Error(Kind::Invalid, std::string(where) + ": the digest is no sha256");
    manifest.digest.erase(0, 7);
    return manifest;
  } catch (const json::Exception&) {
    throw Error(Kind::Invalid, std::string(where) + " does not hold what mvm writes there");
  }
}

}
