// Addresses of hosts: IPv4, IPv6, Ethernet.

#include "mvm/base/ip.h"

#include "checks.h"
#include "context.h"
#include "detectors.h"
#include "letters.h"
#include "number.h"

namespace mvm::protect {
namespace {

// Sections of documents, old versions and object identifiers are written like addresses, with small
// numbers: "5.2.3.11", "(17.4.3.6)", "2.5.29.15".
bool small(const unsigned (&octets)[4]) {
  constexpr unsigned kLargest = 30;
  for (const unsigned octet : octets)
    if (octet > kLargest) return false;
  return octets[0] != 10;
}
// X.500's attributes and extensions, the arc of Ed25519.
bool object_identifier(const unsigned (&octets)[4]) {
  return (octets[0] == 2 && octets[1] == 5 && (octets[2] == 4 || octets[2] == 29)) ||
         (octets[0] == 1 && octets[1] == 3 && octets[2] == 101);
}

// Whether what stands around such a one says that it is an address: a port or prefix behind it, the
// form of a URL or of a server's log, a mark of a value before it, or that it is a field by itself.
bool written_as_address(const Window& window, size_t start, size_t end) {
  using namespace std::string_view_literals;
  const char before = window.before(start);
  const char after = window.at(end);
  if ((after == ':' || after == '/') && is(window.at(end + 1), kDigit)) return true;
  if (window.starts_with(end, " - ") || window.behind(start, 3) == "://") return true;
  if ("\"'=@,;|>"sv.find(before) != std::string_view::npos) return true;
  // In a body, a member's value stands behind its name.
  const bool first =
      "\0\n\t"sv.find(before) != std::string_view::npos || window.behind(start, 2) == ": ";
  return first && "\0\r\n\t,;|"sv.find(after) != std::string_view::npos;
}

}

Found match_ipv4(const Window& window, const Numbers& numbers, size_t first) {
  if (first + 3 >= numbers.count) return std::nullopt;
  unsigned octets[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    const Group& group = numbers.groups[first + i];
    if (group.length > 3 || (i > 0 && group.separator != '.')) return std::nullopt;
    if (group.length > 1 && numbers.digits[group.digit] == '0') return std::nullopt;
    octets[i] = part(numbers.digits_of(first + i, first + i), 0, 3);
    if (octets[i] > 255) return std::nullopt;
  }
  // Nobody's: this network, loopback, multicast, reserved (and netmasks).
  if (octets[0] == 0 || octets[0] == 127 || octets[0] >= 224) return std::nullopt;
  if (first > 0 && numbers.groups[first].separator != ' ' && numbers.groups[first].separator != '(')
    return std::nullopt;
  const size_t start = numbers.groups[first].start;
  const size_t end = numbers.end_of(first + 3);
  if (first == 0) {
    const char before = window.before(start);
    if (is(before, kAlnum) || before == '.' || before == '_' || before == '-' || before == '+')
      return std::nullopt;
    // "Chrome/120.0.0.0": the version of a product.
    if (before == '/' && start >= 2 && is(window.before(start - 1), kAlnum)) return std::nullopt;
  }
  if (first + 4 < numbers.count) {
    const char next = numbers.groups[first + 4].separator;
    if (next != ' ' && next != '/' && next != '(') return std::nullopt;
  } else {
    const char after = window.at(end);
    if (is(after, kAlnum) || after == '_' || (after == '.' && is(window.at(end + 1), kAlnum)) ||
        (after == '-' && is(window.at(end + 1), kAlpha))) {
      return std::nullopt;
    }
  }
  const uint32_t says = context_before(window, start);
  if ((says & kSaysOther) != 0) return std::nullopt;
  if ((says & kSaysAddress) == 0 &&
      (object_identifier(octets) || (small(octets) && !written_as_address(window, start, end))))
    return std::nullopt;
  return Hit{start, end, PiiClass::Ipv4, ""};
}

Found match_ipv6(const Window& window, size_t at) {
  constexpr size_t kLongest = 45;
  const auto part_of = [](char c) { return is_hex(c) || c == ':'; };
  size_t start = at;
  while (start > 0 && at - start <= kLongest && part_of(window.before(start))) --start;
  size_t end = at;
  size_t colons = 0;
  while (end - start <= kLongest &&
         (part_of(window.at(end)) || (window.at(end) == '.' && is(window.at(end + 1), kDigit))))
    ++end;
  if (end - start > kLongest || end - start < 4) return std::nullopt;
  if (window.before(end) == ':' && window.before(end - 1) != ':') --end;  // "…::1: text"
  const char before = window.before(start);
  const char after = window.at(end);
  if (is(before, kAlnum) || before == '_' || before == '.' || is(after, kAlnum) || after == '_')
    return std::nullopt;
  const std::string_view text = window.text(start, end);
  if (after == '/' && text.ends_with("::")) return std::nullopt;  // a network
  for (const char c : text) colons += c == ':' ? 1 : 0;
  if (colons < 2) return std::nullopt;
  const auto address = IpAddress::parse(text);
  if (!address || address->is_v4()) return std::nullopt;
  // Global unicast, unique local, link local: what belongs to somebody. Others ("::1", "a::b" in
  // source code) do not.
  const auto bytes = address->bytes();
  const bool global = (bytes[0] & 0xe0) == 0x20;
  const bool local = (bytes[0] & 0xfe) == 0xfc || (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80);
  if ((!global && !local) || text.find(':') != 4) return std::nullopt;
  return Hit{start, end, PiiClass::Ipv6, ""};
}

Found match_mac(const Window& window, size_t at) {
  constexpr size_t kLength = 17;
  const char separator = window.at(at + 2);
  if (separator != ':' && separator != '-') return std::nullopt;
  bool varied = false;
  for (size_t i = 0; i < kLength; ++i) {
    const char c = window.at(at + i);
    if (i % 3 == 2 ? c != separator : !is_hex(c)) return std::nullopt;
    if (i % 3 != 2) varied = varied || lower(c) != lower(window.at(at));
  }
  // Groups are nobody's: the first octet is odd.
  if (std::string_view("13579bdfBDF").find(window.at(at + 1)) != std::string_view::npos)
    return std::nullopt;
  const char before = window.before(at);
  const char after = window.at(at + kLength);
  // Longer rows of pairs are fingerprints.
  if (is(before, kAlnum) || before == ':' || before == '-' || before == '_') return std::nullopt;
  if (is(after, kAlnum) || after == '_' || after == '-') return std::nullopt;
  if (after == ':' && is_hex(window.at(at + kLength + 1))) return std::nullopt;
  if (!varied) return std::nullopt;  // broadcast, none
  return Hit{at, at + kLength, PiiClass::Mac, ""};
}

}
