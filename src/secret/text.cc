#include "mvm/secret/text.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <string.h>  // explicit_bzero

namespace mvm::secret {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHex = "0123456789ABCDEF";

bool is_unreserved(char c) {  // RFC 3986 §2.3
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

void append_byte(std::string& out, std::string_view mark, char c) {
  const auto byte = static_cast<uint8_t>(c);
  out += mark;
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}

std::string base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4, '=');
  char* to = out.data();
  for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(bytes.size(), 3))) {
    const size_t count = std::min<size_t>(bytes.size(), 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? static_cast<uint8_t>(bytes[i]) : 0);
    for (size_t i = 0; i <= count; ++i) to[i] = kLetters[bits >> (18 - 6 * i) & 63];
    to += 4;
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size());
  uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    size_t value = kLetters.find(c);
    if (c == '-') value = 62;
    if (c == '_') value = 63;
    if (value == kLetters.npos) {
      wipe(out);
      return std::nullopt;
    }
    bits = bits << 6 | static_cast<uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 255);
  }
  return out;
}

std::string written(std::string_view text, Writing writing) {
  if (writing == Writing::Plain) return std::string(text);
  std::string out;
  out.reserve(text.size() * 6);  // once, so that no half of it is left behind
  for (const char c : text) {
    if (writing == Writing::Percent) {
      if (is_unreserved(c))
        out += c;
      else
        append_byte(out, "%", c);
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c >= 0 && c < ' ') {
      append_byte(out, "\\u00", c);
    } else {
      out += c;
    }
  }
  return out;
}

bool is_ascii(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

std::string in_units(std::string_view text, Units units) {
  if (units == Units::Bytes) return std::string(text);
  std::string out;
  out.reserve(text.size() * 2);  // once, as above
  for (const char c : text) {
    out += units == Units::Little ? c : '\0';
    out += units == Units::Little ? '\0' : c;
  }
  return out;
}

void wipe(std::string& text) noexcept {
  ::explicit_bzero(text.data(), text.size());
  text.clear();
}

}
