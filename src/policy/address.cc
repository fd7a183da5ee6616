// Tables, in the order in which they are asked: the narrow ones first, as 169.254.169.254 is a
// metadata service before it is a link-local address.
#include "mvm/policy/address.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace mvm::policy {
namespace {

struct Range {
  IpPrefix prefix;
  Reason reason;
};

const std::vector<Range>& ranges() {
  struct Text {
    std::string_view prefix;
    Reason reason;
  };
  static constexpr Text kTexts[] = {
      // AWS, Azure, Google, DigitalOcean, OpenStack; ECS task roles; EKS pod identities
      {"169.254.169.254/32", Reason::CloudMetadata},
      {"169.254.170.2/32", Reason::CloudMetadata},
      {"169.254.170.23/32", Reason::CloudMetadata},
      {"fd00:ec2::254/128", Reason::CloudMetadata},
      {"fd00:ec2::23/128", Reason::CloudMetadata},
      {"fd20:ce::254/128", Reason::CloudMetadata},
      {"100.100.100.200/32", Reason::CloudMetadata},  // Alibaba
      {"168.63.129.16/32", Reason::CloudMetadata},    // Azure's wire server, a public address
      {"192.0.0.192/32", Reason::CloudMetadata},      // Oracle

      {"0.0.0.0/8", Reason::SpecialPurpose},
      {"10.0.0.0/8", Reason::PrivateRange},
      {"100.64.0.0/10", Reason::SharedAddressSpace},
      {"127.0.0.0/8", Reason::Loopback},
      {"169.254.0.0/16", Reason::LinkLocal},
      {"172.16.0.0/12", Reason::PrivateRange},
      {"192.0.0.0/24", Reason::SpecialPurpose},
      {"192.0.2.0/24", Reason::SpecialPurpose},
      {"192.88.99.0/24", Reason::SpecialPurpose},
      {"192.168.0.0/16", Reason::PrivateRange},
      {"198.18.0.0/15", Reason::SpecialPurpose},
      {"198.51.100.0/24", Reason::SpecialPurpose},
      {"203.0.113.0/24", Reason::SpecialPurpose},
      {"224.0.0.0/3", Reason::SpecialPurpose},  // multicast, reserved, broadcast

      {"::/128", Reason::SpecialPurpose},
      {"::1/128", Reason::Loopback},
      {"100::/64", Reason::SpecialPurpose},
      {"2001:db8::/32", Reason::SpecialPurpose},
      {"3fff::/20", Reason::SpecialPurpose},
      {"5f00::/16", Reason::SpecialPurpose},
      {"fc00::/7", Reason::PrivateRange},
      {"fe80::/10", Reason::LinkLocal},
      {"fec0::/10", Reason::PrivateRange},  // site-local, of old
      {"ff00::/8", Reason::SpecialPurpose},
  };
  static const std::vector<Range> kRanges = [] {
    std::vector<Range> all;
    for (const Text& text : kTexts)
      all.push_back({IpPrefix::parse(text.prefix).value(), text.reason});
    return all;
  }();
  return kRanges;
}

// Where an IPv6 prefix carries an IPv4 address, as the byte it starts at.
struct Carrier {
  std::string_view prefix;
  size_t at;
  bool inverted;  // Teredo hides it from translators that rewrite what looks like an address
};
constexpr Carrier kCarriers[] = {
    {"::ffff:0:0/96", 12, false},    // mapped
    {"::ffff:0:0:0/96", 12, false},  // translated (RFC 2765)
    {"::/96", 12, false},            // compatible
    {"64:ff9b::/96", 12, false},     // NAT64, well-known
    {"64:ff9b:1::/48", 12, false},   // NAT64, local use, with the usual /96 inside
    {"2002::/16", 2, false},         // 6to4
    {"2001::/32", 12, true},         // Teredo's client
};

IpAddress v4_at(std::span<const uint8_t> bytes, size_t at, bool inverted) noexcept {
  IpAddress::V4 v4{};
  for (size_t i = 0; i < v4.size(); ++i)
    v4[i] = static_cast<uint8_t>(inverted ? ~bytes[at + i] : bytes[at + i]);
  return IpAddress(v4);
}

}

std::optional<IpAddress> embedded_v4(const IpAddress& address) noexcept {
  static const auto kPrefixes = [] {
    std::vector<IpPrefix> all;
    for (const Carrier& carrier : kCarriers) all.push_back(IpPrefix::parse(carrier.prefix).value());
    return all;
  }();
  if (address.is_v4()) return std::nullopt;
  const auto bytes = address.bytes();
  for (size_t i = 0; i < kPrefixes.size(); ++i)
    if (kPrefixes[i].contains(address)) return v4_at(bytes, kCarriers[i].at, kCarriers[i].inverted);
  // ISATAP (RFC 5214 §6.1) in any prefix: an interface id of [02]00:5efe and the address.
  if ((bytes[8] & ~2U) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe)
    return v4_at(bytes, 12, false);
  return std::nullopt;
}

std::optional<Reason> restriction(const IpAddress& address) noexcept {
  for (const Range& range : ranges())
    if (range.prefix.contains(address)) return range.reason;
  if (const auto inner = embedded_v4(address); inner && restriction(*inner))
    return Reason::EmbeddedRestricted;
  return std::nullopt;
}

bool can_be_opened(Reason restriction) noexcept {
  return restriction == Reason::Loopback || restriction == Reason::PrivateRange ||
         restriction == Reason::SharedAddressSpace;
}

}
