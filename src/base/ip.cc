#include "mvm/base/ip.h"

#include <algorithm>

#include <arpa/inet.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm {

IpAddress::IpAddress(const V4& bytes) noexcept { std::ranges::copy(bytes, bytes_.begin()); }
IpAddress::IpAddress(const V6& bytes) noexcept : length_(16), bytes_(bytes) {}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  // inet_pton takes the strict forms only; a NUL inside would hide what follows from it.
  if (text.size() >= INET6_ADDRSTRLEN || text.find('\0') != text.npos) return std::nullopt;
  const std::string copy(text);
  V4 v4{};
  if (::inet_pton(AF_INET, copy.c_str(), v4.data()) == 1) return IpAddress(v4);
  V6 v6{};
  if (::inet_pton(AF_INET6, copy.c_str(), v6.data()) == 1) return IpAddress(v6);
  return std::nullopt;
}

static std::string v6_text(std::span<const uint8_t> bytes) {
  std::array<unsigned, 8> groups{};
  for (size_t i = 0; i < groups.size(); ++i)
    groups[i] = unsigned{bytes[2 * i]} << 8 | bytes[2 * i + 1];
  // The longest run of two or more zero groups, the first of equals (RFC 5952 §4.2).
  size_t run_at = groups.size();
  size_t run_length = 1;
  for (size_t at = 0; at < groups.size(); ++at) {
    size_t length = 0;
    while (at + length < groups.size() && groups[at + length] == 0) ++length;
    if (length > run_length) {
      run_at = at;
      run_length = length;
    }
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (size_t at = 0; at < groups.size();) {
    if (at == run_at) {
      out += "::";
      at += run_length;
      continue;
    }
    if (!out.empty() && out.back() != ':') out += ':';
    bool leading = true;
    for (int shift = 12; shift >= 0; shift -= 4) {
      const unsigned digit = groups[at] >> static_cast<unsigned>(shift) & 15U;
      leading = leading && digit == 0 && shift > 0;
      if (!leading) out += kDigits[digit];
    }
    ++at;
  }
  return out;
}

std::string IpAddress::text() const {
  if (!is_v4()) return v6_text(bytes());
  std::string out;
  for (const uint8_t byte : bytes()) out += (out.empty() ? "" : ".") + std::to_string(byte);
  return out;
}

// The mask for byte `index` of a prefix of `length` bits.
static uint8_t mask_byte(unsigned length, size_t index) noexcept {
  const unsigned before = static_cast<unsigned>(index) * 8;
  if (length >= before + 8) return 0xff;
  if (length <= before) return 0;
  return static_cast<uint8_t>(0xff00U >> (length - before));
}

static IpAddress masked(const IpAddress& address, unsigned length) noexcept {
  const auto apply = [&](auto bytes) {
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(address.bytes()[i] & mask_byte(length, i));
    return IpAddress(bytes);
  };
  return address.is_v4() ? apply(IpAddress::V4{}) : apply(IpAddress::V6{});
}

IpPrefix::IpPrefix(const IpAddress& address, unsigned length) noexcept
    : address_(masked(address, length)), length_(length) {
  MVM_ASSERT(length <= address.bits());
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
  const size_t slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  if (slash == text.npos) return IpPrefix(*address, address->bits());
  const auto length = parse_u64(text.substr(slash + 1));
  if (!length || *length > address->bits()) return std::nullopt;
  const IpPrefix prefix(*address, static_cast<unsigned>(*length));
  if (prefix.address() != *address) return std::nullopt;
  return prefix;
}

bool IpPrefix::contains(const IpAddress& address) const noexcept {
  return address.is_v4() == address_.is_v4() && masked(address, length_) == address_;
}

std::string IpPrefix::text() const { return address_.text() + "/" + std::to_string(length_); }

}
