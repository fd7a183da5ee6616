#include "mvm/dns/name.h"

#include <algorithm>

#include "mvm/base/text.h"

namespace mvm::dns {

static char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
// A dot inside a label is possible on the wire, and is not a host's.
static bool is_host_byte(char c) noexcept {
  c = lower(c);
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::optional<Name> Name::parse(std::string_view text) {
  if (text == ".") return Name();
  if (text.ends_with('.')) text.remove_suffix(1);
  Name name;
  name.wire_.clear();
  for (const std::string_view label : split(text, '.')) {
    if (label.empty() || label.size() > kMaxLabel || !std::ranges::all_of(label, is_host_byte) ||
        label.front() == '-' || label.back() == '-')
      return std::nullopt;
    name.wire_ += static_cast<char>(label.size());
    for (const char c : label) name.wire_ += lower(c);
  }
  name.wire_ += '\0';
  if (name.wire_.size() > kMaxName) return std::nullopt;
  return name;
}

Name Name::read(ByteView message, Reader& in) {
  constexpr uint8_t kPointer = 0xc0;
  Name name;
  name.wire_.clear();
  // Where the present run of labels began: a pointer must lead before it.
  size_t begin = message.size() - in.remaining();
  Reader from = in;
  bool jumped = false;
  while (true) {
    const uint8_t length = from.u8();
    if (length >= kPointer) {
      const size_t target = static_cast<size_t>(length & ~kPointer) << 8 | from.u8();
      if (!from || target >= begin) break;
      if (!jumped) in = from;
      jumped = true;
      begin = target;
      from = Reader(message.subspan(target));
      continue;
    }
    // 01 and 10 at the front are no labels of today (RFC 6891 §5).
    const std::string_view label = as_text(from.bytes(length));
    if (!from || length > kMaxLabel || name.wire_.size() + length + 1 > kMaxName) break;
    name.wire_ += static_cast<char>(length);
    for (const char c : label) name.wire_ += lower(c);
    if (length > 0) continue;
    if (!jumped) in = from;
    return name;
  }
  in.fail();
  return Name();
}

std::string Name::text() const {
  if (wire_.size() == 1) return ".";
  std::string out;
  for (size_t at = 0; wire_[at] != 0;) {
    const auto length = static_cast<unsigned char>(wire_[at]);
    if (!out.empty()) out += '.';
    for (const char c : std::string_view(wire_).substr(at + 1, length)) {
      if (is_host_byte(c)) {
        out += c;
        continue;
      }
      const std::string digits = std::to_string(static_cast<unsigned char>(c));
      out += "\\" + std::string(3 - digits.size(), '0') + digits;
    }
    at += length + size_t{1};
  }
  return out;
}

bool Name::is_host() const noexcept {
  for (size_t at = 0; wire_[at] != 0;) {
    const auto length = static_cast<unsigned char>(wire_[at]);
    const auto label = std::string_view(wire_).substr(at + 1, length);
    if (!std::ranges::all_of(label, is_host_byte) || label.front() == '-' || label.back() == '-')
      return false;
    at += length + size_t{1};
  }
  return true;
}

bool Name::ends_in_number() const noexcept {
  std::string_view last;
  for (size_t at = 0; wire_[at] != 0;) {
    const auto length = static_cast<unsigned char>(wire_[at]);
    last = std::string_view(wire_).substr(at + 1, length);
    at += length + size_t{1};
  }
  const bool hexadecimal = last.starts_with("0x");
  if (hexadecimal) last.remove_prefix(2);
  return (hexadecimal || !last.empty()) && std::ranges::all_of(last, [&](char c) {
           return (c >= '0' && c <= '9') || (hexadecimal && c >= 'a' && c <= 'f');
         });
}

}
