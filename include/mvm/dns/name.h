#pragma once
// A domain name (RFC 1035 §3.1) as a value. Compared without regard to case, as §2.3.3 demands;
// kept in lower case, so one name has one form wherever it is a key.

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::dns {

inline constexpr size_t kMaxName = 255;  // bytes on the wire, root label included
inline constexpr size_t kMaxLabel = 63;

class Name {
 public:
  Name() = default;  // the root
  // "example.com" or "example.com.", of labels that a host may have: letters, digits, hyphens
  // inside and underscores (which service names use). "." is the root.
  static std::optional<Name> parse(std::string_view text);

  // Reads a name at the front of `in`, which is the rest of `message` from there. Pointers may only
  // lead to earlier places than any before, so loops are impossible (RFC 1035 §4.1.4). Fails `in`
  // when the name is malformed.
  static Name read(ByteView message, Reader& in);

  // Labels with their lengths and the root label; never compressed.
  ByteView wire() const noexcept { return as_bytes(wire_); }
  // Without the final dot. Bytes that no host name has are shown as \DDD.
  std::string text() const;
  // Nothing but letters, digits, hyphens and underscores: what parse() takes.
  bool is_host() const noexcept;
  // Whether its last label is a number, decimal or with "0x": some reader takes the whole for an
  // IPv4 address then (WHATWG URL, "ends in a number").
  bool ends_in_number() const noexcept;

  auto operator<=>(const Name&) const = default;

 private:
  std::string wire_ = std::string(1, '\0');
};

}
