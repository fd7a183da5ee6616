// An escape is taken for an escape where that gives the letter that is wanted, and literally where
// it does not. A text that holds what looks like an escape ("100%25") is found by its plain needle.

#include "letters.h"

#include <algorithm>
#include <array>

namespace mvm::secret {
namespace {

constexpr std::string_view kEscapes = "%\\&";
constexpr size_t kMaxEntity = 10;      // "&#x10FFFF;"
constexpr size_t kMaxIndent = 32;      // of a line of base64 or hexadecimal digits
constexpr size_t kMaxBackslashes = 8;  // before one escaped letter: JSON in three strings of JSON

// The value of a hexadecimal digit, or -1.
int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte that `count` hexadecimal digits stand for, all but the last two of them zeroes.
struct Byte {
  Step step = Step::No;
  char value = 0;
};
template <typename Text>
Byte digits_at(const Text& text, size_t at, size_t count) noexcept {
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (at + i >= text.size()) return {Step::More};
    const int digit = digit_of(text[at + i]);
    if (digit < 0 || (i + 2 < count && digit != 0)) return {};
    value = (value & 15) * 16 + digit;
  }
  return {Step::Yes, static_cast<char>(value)};
}

template <typename Text>
Taken percent(const Text& text, size_t at, char wanted) noexcept {
  const Byte once = digits_at(text, at + 1, 2);
  if (once.step != Step::Yes) return {once.step};
  if (once.value == wanted) return {Step::Yes, 3};
  if (once.value != '%') return {};
  const Byte twice = digits_at(text, at + 3, 2);
  if (twice.step != Step::Yes) return {twice.step};
  return twice.value == wanted ? Taken{Step::Yes, 5} : Taken{};
}

// How many there are in a row: JSON in a string of JSON has its escapes escaped.
template <typename Text>
size_t backslashes(const Text& text, size_t at) noexcept {
  size_t count = 0;
  while (count < kMaxBackslashes && at + count < text.size() && text[at + count] == '\\') ++count;
  return count;
}

template <typename Text>
Taken backslash_once(const Text& text, size_t at, char wanted) noexcept {
  if (at + 1 == text.size()) return {Step::More};
  const char kind = text[at + 1];
  if (kind == 'u' || kind == 'x') {
    const size_t count = kind == 'u' ? 4 : 2;
    const Byte byte = digits_at(text, at + 2, count);
    if (byte.step == Step::More) return {Step::More};
    if (byte.step == Step::Yes && byte.value == wanted) return {Step::Yes, 2 + count};
    return {};
  }
  char stands_for = kind;
  switch (kind) {
    case 'n':
      stands_for = '\n';
      break;
    case 'r':
      stands_for = '\r';
      break;
    case 't':
      stands_for = '\t';
      break;
    case 'b':
      stands_for = '\b';
      break;
    case 'f':
      stands_for = '\f';
      break;
    case '"':
    case '\'':
    case '\\':
    case '/':
      break;
    default:
      return {};
  }
  return stands_for == wanted ? Taken{Step::Yes, 2} : Taken{};
}

template <typename Text>
Taken backslash(const Text& text, size_t at, char wanted) noexcept {
  const size_t more = wanted == '\\' ? 0 : backslashes(text, at) - 1;
  Taken taken = backslash_once(text, at + more, wanted);
  if (taken.step == Step::Yes) taken.length += more;
  return taken;
}

template <typename Text>
Taken entity(const Text& text, size_t at, uint32_t wanted) noexcept {
  std::array<char, kMaxEntity> letters{};
  const size_t size = std::min(text.size() - at, kMaxEntity);
  for (size_t i = 0; i < size; ++i) letters.at(i) = text[at + i];
  const std::string_view rest(letters.data(), size);
  const size_t end = rest.find(';');
  if (end == rest.npos) {
    const bool may_go_on = rest.size() < kMaxEntity && std::ranges::all_of(
                                                           rest.substr(1),
                                                           [](char c) {
                                                             return c == '#' || digit_of(c) >= 0 ||
                                                                    (c >= 'a' && c <= 'z') ||
                                                                    c == 'X';
                                                           });
    return {may_go_on ? Step::More : Step::No};
  }
  std::string_view name = rest.substr(1, end - 1);
  const Taken yes{Step::Yes, end + 1};
  if (name.starts_with('#')) {
    name.remove_prefix(1);
    const bool is_hex = name.starts_with('x') || name.starts_with('X');
    if (is_hex) name.remove_prefix(1);
    uint32_t value = 0;
    for (const char c : name) {
      const int digit = digit_of(c);
      if (digit < 0 || (!is_hex && digit > 9)) return {};
      value = value * (is_hex ? 16 : 10) + static_cast<uint32_t>(digit);
    }
    return !name.empty() && value == wanted ? yes : Taken{};
  }
  const bool fits = (name == "amp" && wanted == '&') || (name == "lt" && wanted == '<') ||
                    (name == "gt" && wanted == '>') || (name == "quot" && wanted == '"') ||
                    (name == "apos" && wanted == '\'');
  return fits ? yes : Taken{};
}

// A letter of UTF-16 as JSON writes it: "\u00e9".
template <typename Text>
Taken unit_escape(const Text& text, size_t at, uint32_t wanted) noexcept {
  constexpr std::string_view kStart = "\\u";
  constexpr size_t kDigits = 4;
  uint32_t value = 0;
  for (size_t i = 0; i < kStart.size() + kDigits; ++i) {
    if (at + i == text.size()) return {Step::More};
    const char c = text[at + i];
    if (i < kStart.size()) {
      if (c != kStart[i]) return {};
      continue;
    }
    const int digit = digit_of(c);
    if (digit < 0) return {};
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  return value == wanted ? Taken{Step::Yes, kStart.size() + kDigits} : Taken{};
}

// A character beyond ASCII where it is not written as its bytes in UTF-8: in UTF-16, escaped by its
// number.
template <typename Text>
Taken whole_character(const Text& text, size_t at, uint32_t code, Form form) noexcept {
  const char c = text[at];
  if (form == Form::Escaped && c == '&') return entity(text, at, code);
  const bool escaped = form == Form::Escaped && c == '\\';
  if (!escaped && !Text::kWide) return {};
  const Pair pair = utf16(code);
  size_t length = 0;
  for (const uint32_t unit : {pair.first, pair.second}) {
    if (unit == 0) break;
    if (at + length == text.size()) return {Step::More};
    const Taken taken = escaped                          ? unit_escape(text, at + length, unit)
                        : text.unit(at + length) == unit ? Taken{Step::Yes, 1}
                                                         : Taken{};
    if (taken.step != Step::Yes) return taken;
    length += taken.length;
  }
  return {Step::Yes, length};
}

// `wanted` at `at`, written in any way.
template <typename Text>
Taken escaped_letter(const Text& text, size_t at, char wanted) noexcept {
  const char c = text[at];
  Taken taken;
  if (c == '%')
    taken = percent(text, at, wanted);
  else if (c == '\\')
    taken = backslash(text, at, wanted);
  else if (c == '&')
    taken = entity(text, at, static_cast<uint8_t>(wanted));
  if (taken.step != Step::No) return taken;
  if (c == wanted || (c == '+' && wanted == ' ')) return {Step::Yes, 1};
  return {};
}

template <typename Text>
Taken base64_letter(const Text& text, size_t at, char wanted) noexcept {
  const char c = text[at];
  if (c == wanted) return {Step::Yes, 1};
  if (wanted != '+' && wanted != '/') return {};
  if (c == (wanted == '+' ? '-' : '_')) return {Step::Yes, 1};
  if (c == '%') return percent(text, at, wanted);
  if (c == '\\') return backslash(text, at, wanted);
  return {};
}

// A line's end, as it is or escaped, and how the next line is indented. Nothing taken where there
// is none; one alone, so that an empty line, which ends an event of a stream, is waited for by
// nobody.
template <typename Text>
Taken line_end(const Text& text, size_t at) noexcept {
  const size_t start = at;
  for (const auto& [as_it_is, escaped] : {std::pair{'\r', 'r'}, std::pair{'\n', 'n'}}) {
    if (at == text.size()) return {Step::More};
    const size_t before = backslashes(text, at);
    if (at + before == text.size()) return {Step::More};
    if (before > 0 ? text[at + before] == escaped : text[at] == as_it_is) at += before + 1;
  }
  if (at == start) return {};
  for (size_t i = 0; i < kMaxIndent && at < text.size(); ++i, ++at)
    if (text[at] != ' ' && text[at] != '\t') break;
  return {Step::Yes, at - start};
}

// Between two bytes in hexadecimal digits: "73:6b", "73 6b", "0x73, 0x6b".
template <typename Text>
Taken hex_gap(const Text& text, size_t at) noexcept {
  const size_t start = at;
  if (text[at] == ':' || text[at] == '-' || text[at] == ',') ++at;
  if (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  if (at == text.size()) return {Step::More};
  const Taken end = line_end(text, at);
  if (end.step == Step::More) return end;
  at += end.length;
  if (at + 1 < text.size() && text[at] == '0' && (text[at + 1] == 'x' || text[at + 1] == 'X'))
    at += 2;
  return {Step::Yes, at - start};
}

// What may stand before the letter at `i` of a needle and is no part of it.
template <typename Text>
Taken gap(const Text& text, size_t at, Form form, size_t i) noexcept {
  const bool none = form == Form::Plain || form == Form::Escaped || i == 0;
  if (none || (text[at] > '0' && digit_of(text[at]) >= 0)) return {};
  if (form == Form::Base64) return line_end(text, at);
  return i % 2 == 0 ? hex_gap(text, at) : Taken{};
}

// Of the needle's character at `i`, or of one byte of it; `taken_of` says how much that was.
template <typename Text>
Taken letter_at(const Text& text, size_t at, Form form, std::string_view needle, size_t i,
                size_t& taken_of) noexcept {
  taken_of = 1;
  if (form == Form::Base64) return base64_letter(text, at, needle[i]);
  if (form == Form::Hex)
    return digit_of(text[at]) == digit_of(needle[i]) ? Taken{Step::Yes, 1} : Taken{};
  if (static_cast<uint8_t>(needle[i]) >= 0x80) {
    const Character wanted = character_at(needle, i);
    const Taken taken = whole_character(text, at, wanted.code, form);
    if (taken.step == Step::Yes) taken_of = wanted.length;
    if (taken.step != Step::No || Text::kWide) return taken;
  }
  if (form == Form::Escaped) return escaped_letter(text, at, needle[i]);
  return text[at] == needle[i] ? Taken{Step::Yes, 1} : Taken{};
}

// Whether a letter that is wanted and there is no beginning of anything else, as an escape is, or
// the "0x" before hexadecimal digits.
bool stands_for_itself(Form form, char wanted) noexcept {
  if (form == Form::Hex) return wanted != '0';
  return static_cast<uint8_t>(wanted) < 0x80 && kEscapes.find(wanted) == kEscapes.npos;
}

}

template <Units kUnits>
Taken compare(std::string_view needle, Form form, const Letters<kUnits>& text) noexcept {
  if (form == Form::Plain && kUnits == Units::Bytes) {
    const size_t length = std::min(needle.size(), text.size());
    if (needle.compare(0, length, text.text(), 0, length) != 0) return {};
    return length == needle.size() ? Taken{Step::Yes, length} : Taken{Step::More};
  }
  size_t at = 0;
  size_t taken_of = 0;
  for (size_t i = 0; i < needle.size(); i += taken_of) {
    if (at == text.size()) return {Step::More};
    // Nearly all letters are written as they are.
    const char wanted = needle[i];
    if (text[at] == wanted && stands_for_itself(form, wanted)) {
      ++at;
      taken_of = 1;
      continue;
    }
    const Taken between = gap(text, at, form, i);
    if (between.step == Step::More) return between;
    at += between.length;
    if (at == text.size()) return {Step::More};
    const Taken letter = letter_at(text, at, form, needle, i, taken_of);
    if (letter.step != Step::Yes) return letter;
    at += letter.length;
  }
  return {Step::Yes, at};
}
template Taken compare(std::string_view, Form, const Letters<Units::Bytes>&) noexcept;
template Taken compare(std::string_view, Form, const Letters<Units::Little>&) noexcept;
template Taken compare(std::string_view, Form, const Letters<Units::Big>&) noexcept;

// What may stand first where `letter` is wanted.
std::string beginnings(Form form, char letter) {
  std::string out(1, letter);
  if (form == Form::Escaped) {
    out += kEscapes;
    if (letter == ' ') out += '+';
  } else if (form == Form::Base64 && (letter == '+' || letter == '/')) {
    out += letter == '+' ? '-' : '_';
    out += "%\\";
  } else if (form == Form::Hex && letter >= 'a') {
    out += static_cast<char>(letter - 'a' + 'A');
  }
  return out;
}

// What may stand second, behind `first`, where the needle begins with `letter` and goes on with
// `next`.
std::string continuations(Form form, char first, char letter, char next) {
  if (form == Form::Plain || kEscapes.find(first) == std::string_view::npos)
    return beginnings(form, next) + (form == Form::Base64 ? "\r\n\\" : "");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  if (first == '%') {
    const char high = kDigits[static_cast<uint8_t>(letter) >> 4];
    out = {'2', high, high >= 'a' ? static_cast<char>(high - 'a' + 'A') : high};
  } else if (first == '&') {
    out = "#algq";
  } else {
    out = "ux\\";
    for (const char kind : std::string_view("nrtbf\"'\\/"))
      if (const char both[] = {'\\', kind};
          backslash(std::string_view(both, 2), 0, letter).step == Step::Yes)
        out += kind;
  }
  // It may be no escape at all.
  if (first == letter) out += beginnings(form, next);
  return out;
}

Character character_at(std::string_view text, size_t at) noexcept {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (length == 1 || at + length > text.size()) return {lead, 1};
  uint32_t code = lead & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<uint8_t>(text[at + i]) & 63U);
  return {code, length};
}

Pair utf16(uint32_t code) noexcept {
  if (code < 0x10000) return {code};
  return {0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff)};
}

}
