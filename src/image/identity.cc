#include "identity.h"

#include "mvm/base/text.h"

namespace mvm::image {

std::string identity_of(const store::ImageConfig& config) {
  if (config == store::ImageConfig{}) return "";
  std::string identity;
  const auto add = [&](std::string_view text) {
    identity.append(std::to_string(text.size())).append(":").append(text);
  };
  for (const auto* list : {&config.entrypoint, &config.cmd, &config.env}) {
    add(std::to_string(list->size()));
    for (const std::string& text : *list) add(text);
  }
  for (const std::string* text : {&config.user, &config.workdir, &config.stop_signal}) add(*text);
  for (const auto& [key, value] : config.labels) {
    add(key);
    add(value);
  }
  // Neither of these can be taken for a label, whose key is text: CBOR's first byte is none, and a
  // kernel stands alone or behind that.
  if (config.health) add(as_text(config.health->encode()));
  if (!config.kernel.empty()) add("kernel=" + config.kernel);
  return identity;
}

}
