#pragma once
// Kinds of bytes, by table.

#include <array>
#include <cstdint>

namespace mvm::protect {

enum : uint8_t {
  kDigit = 1,
  kUpper = 2,
  kLower = 4,
  kHexLetter = 8,
  kLocal = 16,     // in the local part of an address
  kWordMark = 32,  // '_' and '-'
  kHigh = 64,      // a byte of a longer UTF-8 character
  kBase64 = 128,   // '+' '/' '='
};

inline constexpr auto kKinds = [] {
  std::array<uint8_t, 256> out{};
  for (int c = '0'; c <= '9'; ++c) out[static_cast<size_t>(c)] = kDigit | kLocal;
  for (int c = 'A'; c <= 'Z'; ++c) out[static_cast<size_t>(c)] = kUpper | kLocal;
  for (int c = 'a'; c <= 'z'; ++c) out[static_cast<size_t>(c)] = kLower | kLocal;
  for (const char c : {'a', 'b', 'c', 'd', 'e', 'f', 'A', 'B', 'C', 'D', 'E', 'F'})
    out[static_cast<uint8_t>(c)] |= kHexLetter;
  for (const char c : {'.', '_', '%', '+', '-', '\''}) out[static_cast<uint8_t>(c)] |= kLocal;
  for (const char c : {'_', '-'}) out[static_cast<uint8_t>(c)] |= kWordMark;
  for (const char c : {'+', '/', '='}) out[static_cast<uint8_t>(c)] |= kBase64;
  for (size_t c = 128; c < 256; ++c) out[c] = kHigh;
  return out;
}();

inline constexpr uint8_t kAlpha = kUpper | kLower;
inline constexpr uint8_t kAlnum = kDigit | kAlpha;

constexpr bool is(char c, uint8_t kinds) noexcept {
  return (kKinds[static_cast<uint8_t>(c)] & kinds) != 0;
}
constexpr bool is_hex(char c) noexcept { return is(c, kDigit | kHexLetter); }
constexpr char lower(char c) noexcept { return is(c, kUpper) ? static_cast<char>(c + 32) : c; }
constexpr char upper(char c) noexcept { return is(c, kLower) ? static_cast<char>(c - 32) : c; }

}
