// From several sources to one decision: the command line over the environment over the manifest
// over the defaults.

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/config/manifest.h"

namespace mvm::config {

Settings settings_from_environment(
    const std::function<std::optional<std::string>(std::string_view)>& variable) {
  Settings settings;
  for (const Key& key : keys()) {
    if (key.environment.empty()) continue;
    const auto text = variable(key.environment);
    if (!text || text->empty()) continue;
    if (const auto complaint = set_from_text(key, *text, settings))
      throw Error(Kind::Invalid, std::string(key.environment) + " " + *complaint);
  }
  return settings;
}

Settings default_settings() {
  Settings settings;
  for (const Key& key : keys())
    if (!key.fallback.empty()) MVM_ASSERT(!set_from_text(key, key.fallback, settings));
  return settings;
}

Resolved resolve(std::span<const Layer> layers) {
  Resolved out;
  for (const Key& key : keys()) {
    std::string origin;
    std::visit(
        [&](auto member) {
          auto& result = out.settings.*member;
          for (const Layer& layer : layers) {
            const auto& value = layer.settings.*member;
            if constexpr (requires { result.has_value(); }) {
              if (result.has_value() || !value.has_value()) continue;
              result = value;
              origin = layer.origin;
            } else if constexpr (requires { result.push_back(*value.begin()); }) {
              if (!value.empty() && origin.empty()) origin = layer.origin;
              result.insert(result.end(), value.begin(), value.end());
            } else {
              if (!value.empty() && origin.empty()) origin = layer.origin;
              result.insert(value.begin(), value.end());  // keeps what an earlier layer said
            }
          }
        },
        key.target);
    out.origins.push_back(std::move(origin));
  }
  return out;
}

}
