#pragma once
// Code points and UTF-8 (RFC 3629).

#include <cstdint>
#include <string>

namespace mvm::protect {

inline constexpr uint32_t kLastCodePoint = 0x10ffff;
constexpr bool is_surrogate(uint32_t code) noexcept { return code >= 0xd800 && code < 0xe000; }

inline void append_utf8(std::string& out, uint32_t code) {
  const auto byte = [&](uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | (code >> 6));
    byte(0x80 | (code & 63));
  } else if (code < 0x10000) {
    byte(0xe0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 63));
    byte(0x80 | (code & 63));
  } else {
    byte(0xf0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 63));
    byte(0x80 | ((code >> 6) & 63));
    byte(0x80 | (code & 63));
  }
}

}
