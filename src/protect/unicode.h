#pragma once
// Code points and UTF-8 (RFC 3629).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mvm::protect {

inline constexpr uint32_t kLastCodePoint = 0x10ffff;
constexpr bool is_surrogate(uint32_t code) noexcept { return code >= 0xd800 && code < 0xe000; }

constexpr bool is_continuation(char c) noexcept { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

// Whether these are the first two bytes of a letter that goes on a word of ASCII letters: of Latin,
// Greek, Cyrillic and Armenian, whose words stand apart, or a mark on one. What else there is
// beyond ASCII (Han, kana, Hangul, Thai, quotes, dashes) stands right beside a value that is not
// of it: "メールはjane@example.comです".
constexpr bool begins_letter(char first, char second) noexcept {
  const auto a = static_cast<uint8_t>(first);
  const auto b = static_cast<uint8_t>(second);
  if (!is_continuation(second)) return false;
  if (a == 0xc3) return b != 0x97 && b != 0xb7;  // U+00C0 on, but no signs
  if (a == 0xd6) return b < 0x88;                // up to U+0587
  if (a == 0xe1) return b >= 0xb8;               // U+1E00 to U+1FFF
  return (a >= 0xc4 && a < 0xca) || (a >= 0xcc && a < 0xd6);
}

// The bytes of such a letter at the end of `text`; 0: none is there.
constexpr size_t letter_at_end(std::string_view text) noexcept {
  const size_t size = text.size();
  if (size >= 2 && text[size - 2] != '\xe1' && begins_letter(text[size - 2], text[size - 1]))
    return 2;
  if (size >= 3 && text[size - 3] == '\xe1' && begins_letter('\xe1', text[size - 2]) &&
      is_continuation(text[size - 1]))
    return 3;
  return 0;
}

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
