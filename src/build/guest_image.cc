#include "mvm/build/guest_image.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/build/capture.h"
#include "mvm/json/json.h"

#include "json.h"

namespace mvm::build {
namespace {

constexpr const char* kWhere = "image.json";

[[noreturn]] void wrong(const std::string& key, const std::string& why) {
  throw Error(Kind::Invalid, std::string(kWhere) + ": " + key + " " + why);
}

std::string text_of(const Json& json, const std::string& key, size_t limit) {
  if (!json.is_string()) wrong(key, "must be a text");
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() > limit) wrong(key, "is longer than " + std::to_string(limit) + " bytes");
  if (text.find('\0') != text.npos) wrong(key, "has a zero byte");
  return text;
}

std::string optional_text(const Json& json, const char* key, size_t limit) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "";
  return text_of(*found, key, limit);
}

std::map<std::string, std::string> table(const Json& json, const char* key) {
  std::map<std::string, std::string> out;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return out;
  if (!found->is_object()) wrong(key, "must be a set of texts");
  if (found->size() > kMaxNames)
    wrong(key, "has more than " + std::to_string(kMaxNames) + " names");
  for (const auto& [name, value] : found->items()) {
    if (name.empty() || name.size() > 255 ||
        name.find_first_of(std::string_view("=\0", 2)) != name.npos)
      wrong(key, "has a name that is none: '" + printable(name, 40) + "'");
    out[name] = text_of(value, std::string(key) + "." + printable(name, 40), api::kMaxText);
  }
  return out;
}

std::vector<std::string> words(const Json& json, const char* key) {
  std::vector<std::string> out;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return out;
  if (!found->is_array()) wrong(key, "must be a list of words");
  if (found->size() > kMaxWords)
    wrong(key, "has more than " + std::to_string(kMaxWords) + " words");
  for (const Json& word : *found) out.push_back(text_of(word, key, api::kMaxText));
  return out;
}

uint32_t number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return 0;
  if (!found->is_number_unsigned() || found->get<uint64_t>() > UINT32_MAX - 1)
    wrong(std::string("attributes.") + key, "must be the number of a user or group");
  return found->get<uint32_t>();
}

uint32_t mode_of(const Json& json) {
  const std::string text = optional_text(json, "mode", 8);
  uint32_t mode = 0;
  if (text.size() < 3 || text.size() > 4 || text.find_first_not_of("01234567") != text.npos)
    wrong("attributes.mode", "must be three or four octal digits");
  for (const char digit : text) mode = mode * 8 + static_cast<uint32_t>(digit - '0');
  return mode;
}

// Times in seconds; what is not said is as Docker has it.
std::optional<proto::HealthCheck> health(const Json& json) {
  const auto found = json.find("healthcheck");
  if (found == json.end() || found->is_null()) return std::nullopt;
  if (!found->is_object()) wrong("healthcheck", "must be a set");
  proto::HealthCheck check;
  check.command = words(*found, "command");
  if (check.command.empty()) wrong("healthcheck.command", "must be a list of words");
  const auto read = [&](const char* key, uint64_t& into, uint64_t unit) {
    const auto value = found->find(key);
    if (value == found->end()) return;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > UINT32_MAX)
      wrong(std::string("healthcheck.") + key, "must be a whole number");
    into = value->get<uint64_t>() * unit;
  };
  constexpr uint64_t kSecond = 1000;
  read("interval", check.interval_ms, kSecond);
  read("timeout", check.timeout_ms, kSecond);
  read("startPeriod", check.start_period_ms, kSecond);
  read("startInterval", check.start_interval_ms, kSecond);
  uint64_t retries = check.retries;
  read("retries", retries, 1);
  check.retries = static_cast<uint32_t>(retries);
  if (const auto why = check.complaint()) wrong("healthcheck", "cannot be taken: " + *why);
  return check;
}

std::vector<api::CaptureRequest::Attributes> attributes(const Json& json) {
  std::vector<api::CaptureRequest::Attributes> out;
  const auto found = json.find("attributes");
  if (found == json.end()) return out;
  if (!found->is_array()) wrong("attributes", "must be a list");
  if (found->size() > kMaxAttributes)
    wrong("attributes", "are more than " + std::to_string(kMaxAttributes));
  for (const Json& entry : *found) {
    if (!entry.is_object()) wrong("attributes", "must be sets of path, mode, uid and gid");
    const std::string path = optional_text(entry, "path", 4095);
    if (!path.starts_with('/')) wrong("attributes.path", "must be absolute");
    out.push_back({path, mode_of(entry), number(entry, "uid"), number(entry, "gid")});
  }
  return out;
}

}

bool is_store_path(std::string_view path) {
  constexpr std::string_view kStore = "/nix/store/";
  constexpr std::string_view kBase32 = "0123456789abcdfghijklmnpqrsvwxyz";
  constexpr size_t kHash = 32;
  constexpr size_t kMaxStoreName = 211;
  if (!path.starts_with(kStore)) return false;
  path.remove_prefix(kStore.size());
  if (path.size() < kHash + 2 || path[kHash] != '-') return false;
  if (path.substr(0, kHash).find_first_not_of(kBase32) != path.npos) return false;
  const std::string_view name = path.substr(kHash + 1);
  if (name.size() > kMaxStoreName) return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("+-._?=").find(c) != std::string_view::npos;
  });
}

GuestImage parse_guest_image(std::string_view text) {
  const Json json = json::parse(text, kWhere, limits(kMaxGuestImage));
  if (!json.is_object()) throw Error(Kind::Invalid, std::string(kWhere) + " is not an object");
  const auto format = json.find("mvm");
  if (format == json.end() || !format->is_number_unsigned())
    wrong("mvm", "must say which format it is: was this made by mkGuest?");
  if (format->get<uint64_t>() != kGuestFormat)
    throw Error(Kind::Unsupported, std::string(kWhere) + " has format " +
                                       std::to_string(format->get<uint64_t>()) +
                                       ", and this mvm knows " + std::to_string(kGuestFormat) +
                                       "; mkGuest is of another version");
  GuestImage image;
  image.name = optional_text(json, "name", kMaxName);
  image.root = optional_text(json, "root", 4095);
  if (!is_store_path(image.root)) wrong("root", "must be a store path");
  image.entrypoint = words(json, "entrypoint");
  image.env = table(json, "env");
  image.user = optional_text(json, "user", 255);
  image.workdir = optional_text(json, "workdir", 4095);
  if (!image.workdir.empty() && image.workdir.front() != '/') wrong("workdir", "must be absolute");
  image.health = health(json);
  image.labels = table(json, "labels");
  // They are for provenance, which we know and a guest only claims.
  for (const auto& [name, value] : image.labels)
    if (name.starts_with("mvm."))
      wrong("labels." + printable(name, 40), "cannot be given: mvm. is for what mvm itself says");
  image.attributes = attributes(json);
  image.kernel = optional_text(json, "kernel", 4095);
  if (!image.kernel.empty() && !is_store_path(image.kernel))
    wrong("kernel", "must be a store path");
  return image;
}

}
