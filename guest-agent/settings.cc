#include "settings.h"

#include "mvm/base/text.h"

namespace mvm::guest {

Settings parse_settings(std::string_view command_line) {
  Settings settings;
  while (!command_line.empty() && command_line.back() == '\n') command_line.remove_suffix(1);
  for (const auto word : split(command_line, ' ')) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (name == "mvm.root") settings.root = value;
    if (name == "mvm.overlay") settings.overlay = value;
    if (name == "mvm.overlay_size") settings.overlay_size = value;
    if (name == "mvm.hostname") settings.hostname = value;
    // A word that we do not know is not taken for the one that allows everything.
    if (name == "mvm.profile")
      settings.profile = proto::profile_from_name(value).value_or(proto::Profile::Sealed);
    if (name == "mvm.log") settings.verbose = value == "debug";
    if (name == "mvm.port") {
      const auto port = parse_u64(value);
      if (port && *port > 0 && *port < UINT32_MAX) settings.port = static_cast<uint32_t>(*port);
    }
  }
  return settings;
}

}
