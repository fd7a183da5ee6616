// Theory of operation. Each form of each text is a needle. A table says of every two bytes whether
// some needle may start with them; nearly all places fall out there. At the others the needles of
// that first byte are compared one by one: letter by letter, where a letter may be written in
// several ways, but at any place in only one of them, so that nothing is tried twice.
//
// An escape is taken for an escape where that gives the letter that is wanted, and literally where
// it does not. A text that holds what looks like an escape ("100%25") is found by its plain needle.

#include "mvm/secret/finder.h"

#include <algorithm>
#include <string>

#include "mvm/base/error.h"
#include "mvm/secret/text.h"

namespace mvm::secret {
namespace {

enum class Step : uint8_t { No, More, Yes };
struct Taken {
  Step step = Step::No;
  size_t length = 0;
};

constexpr std::string_view kEscapes = "%\\&";
constexpr size_t kMaxEntity = 8;  // "&#x0026;"
// Lines of base64 end where this many letters have matched, at the least; otherwise the end of any
// text would look like the beginning of a needle.
constexpr size_t kLettersBeforeLine = 8;

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
Byte digits_at(std::string_view text, size_t at, size_t count) noexcept {
  int value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (at + i >= text.size()) return {Step::More};
    const int digit = digit_of(text[at + i]);
    if (digit < 0 || (i + 2 < count && digit != 0)) return {};
    value = (value & 15) * 16 + digit;
  }
  return {Step::Yes, static_cast<char>(value)};
}

Taken percent(std::string_view text, size_t at, char wanted) noexcept {
  const Byte once = digits_at(text, at + 1, 2);
  if (once.step != Step::Yes) return {once.step};
  if (once.value == wanted) return {Step::Yes, 3};
  if (once.value != '%') return {};
  const Byte twice = digits_at(text, at + 3, 2);
  if (twice.step != Step::Yes) return {twice.step};
  return twice.value == wanted ? Taken{Step::Yes, 5} : Taken{};
}

Taken backslash(std::string_view text, size_t at, char wanted) noexcept {
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

Taken entity(std::string_view text, size_t at, char wanted) noexcept {
  const std::string_view rest = text.substr(at, kMaxEntity);
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
    unsigned value = 0;
    for (const char c : name) {
      const int digit = digit_of(c);
      if (digit < 0 || (!is_hex && digit > 9)) return {};
      value = value * (is_hex ? 16 : 10) + static_cast<unsigned>(digit);
    }
    return !name.empty() && value == static_cast<unsigned char>(wanted) ? yes : Taken{};
  }
  const bool fits = (name == "amp" && wanted == '&') || (name == "lt" && wanted == '<') ||
                    (name == "gt" && wanted == '>') || (name == "quot" && wanted == '"') ||
                    (name == "apos" && wanted == '\'');
  return fits ? yes : Taken{};
}

// `wanted` at `at`, written in any way.
Taken escaped_letter(std::string_view text, size_t at, char wanted) noexcept {
  const char c = text[at];
  Taken taken;
  if (c == '%')
    taken = percent(text, at, wanted);
  else if (c == '\\')
    taken = backslash(text, at, wanted);
  else if (c == '&')
    taken = entity(text, at, wanted);
  if (taken.step != Step::No) return taken;
  if (c == wanted || (c == '+' && wanted == ' ')) return {Step::Yes, 1};
  return {};
}

Taken base64_letter(std::string_view text, size_t at, char wanted) noexcept {
  const char c = text[at];
  if (c == wanted) return {Step::Yes, 1};
  if (wanted != '+' && wanted != '/') return {};
  if (c == (wanted == '+' ? '-' : '_')) return {Step::Yes, 1};
  if (c == '%') return percent(text, at, wanted);
  if (c == '\\') return backslash(text, at, wanted);
  return {};
}

// A line's end, as it is or escaped; nothing taken when there is none.
Taken line_end(std::string_view text, size_t at) noexcept {
  if (text[at] == '\n' || text[at] == '\r') return {Step::Yes, 1};
  if (text[at] != '\\') return {};
  if (at + 1 == text.size()) return {Step::More};
  return text[at + 1] == 'n' || text[at + 1] == 'r' ? Taken{Step::Yes, 2} : Taken{};
}

// `needle` at the beginning of `text`.
Taken compare(std::string_view needle, Form form, std::string_view text) noexcept {
  if (form == Form::Plain) {
    const size_t length = std::min(needle.size(), text.size());
    if (needle.compare(0, length, text, 0, length) != 0) return {};
    return length == needle.size() ? Taken{Step::Yes, length} : Taken{Step::More};
  }
  size_t at = 0;
  for (size_t i = 0; i < needle.size(); ++i) {
    if (at == text.size()) return {Step::More};
    if (form == Form::Base64 && i >= kLettersBeforeLine) {
      Taken end = line_end(text, at);
      while (end.step == Step::Yes) {
        at += end.length;
        if (at == text.size()) return {Step::More};
        end = line_end(text, at);
      }
      if (end.step == Step::More) return end;
    }
    Taken letter;
    if (form == Form::Escaped)
      letter = escaped_letter(text, at, needle[i]);
    else if (form == Form::Base64)
      letter = base64_letter(text, at, needle[i]);
    else if (digit_of(text[at]) == digit_of(needle[i]))
      letter = {Step::Yes, 1};
    if (letter.step != Step::Yes) return letter;
    at += letter.length;
  }
  return {Step::Yes, at};
}

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
    return beginnings(form, next);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  if (first == '%') {
    const char high = kDigits[static_cast<uint8_t>(letter) >> 4];
    out = {'2', high, high >= 'a' ? static_cast<char>(high - 'a' + 'A') : high};
  } else if (first == '&') {
    out = "#algq";
  } else {
    out = "ux";
    for (const char kind : std::string_view("nrtbf\"'\\/"))
      if (const char both[] = {'\\', kind};
          backslash(std::string_view(both, 2), 0, letter).step == Step::Yes)
        out += kind;
  }
  // It may be no escape at all.
  if (first == letter) out += beginnings(form, next);
  return out;
}

size_t pair_of(char first, char second) noexcept {
  return static_cast<size_t>(static_cast<uint8_t>(first)) << 8 | static_cast<uint8_t>(second);
}

// The letters that depend on nothing but `text`, which has `before` bytes (modulo 3) in front.
std::string base64_core(std::string_view text, size_t before) {
  std::string padded(before, '\0');
  padded.reserve(before + text.size());
  padded += text;
  std::string letters = base64(padded);
  wipe(padded);
  const size_t first = (before * 8 + 5) / 6;
  const size_t last = (before + text.size()) * 8 / 6;
  std::string core = letters.substr(first, last - first);
  wipe(letters);
  return core;
}

}

void Finder::add(std::string_view text, uint32_t id, bool all_forms) {
  MVM_ASSERT(text.size() >= kMinText);
  add({Locked(text), id, Form::Plain});
  if (!all_forms) return;
  add({Locked(text), id, Form::Escaped});
  for (size_t before = 0; before < 3; ++before) {
    std::string core = base64_core(text, before);
    add({Locked(core), id, Form::Base64});
    wipe(core);
  }
  std::string digits;
  digits.reserve(text.size() * 2);
  for (const char c : text) {
    digits += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    digits += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  add({Locked(digits), id, Form::Hex});
  wipe(digits);
}

void Finder::add(Needle needle) {
  MVM_ASSERT(needles_.size() < UINT16_MAX);
  const auto index = static_cast<uint16_t>(needles_.size());
  const std::string_view text = needle.text.view();
  for (const char first : beginnings(needle.form, text[0])) {
    by_first_.at(static_cast<uint8_t>(first)).push_back(index);
    for (const char second : continuations(needle.form, first, text[0], text[1]))
      pairs_.set(pair_of(first, second));
  }
  needles_.push_back(std::move(needle));
}

Finder::Hit Finder::find(std::string_view text, size_t from, bool last) const noexcept {
  for (size_t at = from; at < text.size(); ++at) {
    const auto& candidates = by_first_[static_cast<uint8_t>(text[at])];
    if (at + 1 < text.size() && !pairs_[pair_of(text[at], text[at + 1])]) continue;
    Hit best;
    bool more = false;
    for (const uint16_t index : candidates) {
      const Needle& needle = needles_[index];
      const Taken taken = compare(needle.text.view(), needle.form, text.substr(at));
      more = more || taken.step == Step::More;
      if (taken.step == Step::Yes && taken.length > best.length)
        best = {Hit::Kind::Whole, at, taken.length, needle.id, needle.form};
    }
    if (more && !last) return {Hit::Kind::Partial, at, text.size() - at, 0, Form::Plain};
    if (best.kind == Hit::Kind::Whole) return best;
  }
  return {};
}

}
