#include "settings.h"

#include "mvm/base/text.h"

namespace mvm::guest {

// "ADDRESS/LENGTH,GATEWAY", both of one family.
static std::optional<CardAddress> parse_card_address(std::string_view text) {
  const size_t slash = text.find('/');
  const size_t comma = text.find(',', slash == text.npos ? 0 : slash);
  if (slash == text.npos || comma == text.npos) return std::nullopt;
  const auto address = IpAddress::parse(text.substr(0, slash));
  const auto length = parse_u64(text.substr(slash + 1, comma - slash - 1));
  const auto gateway = IpAddress::parse(text.substr(comma + 1));
  if (!address || !length || !gateway || address->is_v4() != gateway->is_v4() ||
      *length > address->bits())
    return std::nullopt;
  return CardAddress{*address, static_cast<unsigned>(*length), *gateway};
}

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
    if (const size_t comma = value.find(",/"); name == "mvm.kept" && comma != value.npos)
      settings.kept = {std::string(value.substr(0, comma)), std::string(value.substr(comma + 1))};
    if (name == "mvm.hostname") settings.hostname = value;
    // A word that we do not know is not taken for the one that allows everything.
    if (name == "mvm.profile")
      settings.profile = proto::profile_from_name(value).value_or(proto::Profile::Sealed);
    if (name == "mvm.ip4" || name == "mvm.ip6") {
      const auto address = parse_card_address(value);
      const bool v4 = name == "mvm.ip4";
      if (address && address->address.is_v4() == v4) (v4 ? settings.ip4 : settings.ip6) = address;
    }
    if (name == "mvm.log") settings.verbose = value == "debug";
    if (name == "mvm.port") {
      const auto port = parse_u64(value);
      if (port && *port > 0 && *port < UINT32_MAX) settings.port = static_cast<uint32_t>(*port);
    }
  }
  return settings;
}

}
