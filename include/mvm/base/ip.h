#pragma once
// IP addresses and prefixes as values: parsed, compared, printed; nothing here asks the system.

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mvm {

class IpAddress {
 public:
  using V4 = std::array<uint8_t, 4>;
  using V6 = std::array<uint8_t, 16>;

  IpAddress() noexcept = default;  // 0.0.0.0
  explicit IpAddress(const V4& bytes) noexcept;
  explicit IpAddress(const V6& bytes) noexcept;
  // Exactly what RFC 4291 §2.2 and a dotted quad of decimal numbers allow: no zone, no port, no
  // brackets, none of the octal, hexadecimal or short forms that readers of addresses differ on.
  static std::optional<IpAddress> parse(std::string_view text);

  bool is_v4() const noexcept { return length_ == 4; }
  // 4 or 16 bytes in network order.
  std::span<const uint8_t> bytes() const noexcept { return std::span(bytes_).first(length_); }
  unsigned bits() const noexcept { return length_ * 8U; }
  // RFC 5952. A v4 address inside a v6 one is printed in hexadecimal like any other.
  std::string text() const;

  // All v4 addresses come before all v6 ones.
  std::strong_ordering operator<=>(const IpAddress&) const noexcept = default;

 private:
  uint8_t length_ = 4;
  V6 bytes_{};  // zero beyond length_
};

// "10.0.0.0/8". Bits beyond the length are zero.
class IpPrefix {
 public:
  // `length` is at most address.bits(); the other bits of `address` are cleared.
  IpPrefix(const IpAddress& address, unsigned length) noexcept;
  // Refuses bits beyond the length: who writes 10.1.2.3/8 has made a slip somewhere. A bare address
  // is a prefix of full length.
  static std::optional<IpPrefix> parse(std::string_view text);

  const IpAddress& address() const noexcept { return address_; }
  unsigned length() const noexcept { return length_; }
  bool contains(const IpAddress& address) const noexcept;
  std::string text() const;
  bool operator==(const IpPrefix&) const noexcept = default;

 private:
  IpAddress address_;
  unsigned length_ = 0;
};

}
