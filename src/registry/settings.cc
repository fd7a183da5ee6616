#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/json/json.h"
#include "mvm/registry/registry.h"
#include "mvm/sys/file.h"

namespace mvm::registry {

static constexpr size_t kMaxFile = size_t{1} << 20;

Settings parse_settings(std::string_view text, std::string_view where) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Kind::Invalid, std::string(where) + ": " + why);
  };
  const auto json = json::parse_object(text);
  if (!json) refuse("it must be a JSON object; mend it, or remove it for what holds without it");
  Settings settings;
  for (const auto& [key, value] : json->items()) {
    if (key == "require_digest") {
      if (!value.is_boolean()) refuse("require_digest must be true or false");
      settings.require_digest = value.get<bool>();
    } else if (key == "mirrors") {
      if (!value.is_object()) refuse("mirrors must be an object of lists");
      for (const auto& [host, list] : value.items()) {
        if (!list.is_array()) refuse("mirrors." + printable(host) + " must be a list of URLs");
        for (const json::Value& url : list) {
          if (!url.is_string()) refuse("mirrors." + printable(host) + " must be a list of URLs");
          const auto& text_of_url = url.get_ref<const std::string&>();
          while_doing(where, [&] { parse_url(text_of_url); });
          settings.mirrors[host].push_back(text_of_url);
        }
      }
    } else {
      refuse("unknown key \"" + printable(key) + "\"; there are mirrors and require_digest");
    }
  }
  return settings;
}

Settings load_settings(const std::string& path) {
  if (!sys::exists(path)) return {};
  return parse_settings(sys::read_own_text_file(path, kMaxFile), path);
}

}
