// A reader of JSON (RFC 8259) for each level, a byte at a time. What a string's bytes stand for
// goes on to the level within, as far as that still looks like JSON; of characters that are not
// ASCII only that there is one.

#include "mvm/protect/json_nest.h"

#include "letters.h"

namespace mvm::protect {
namespace {

constexpr uint8_t kLetter = 5;    // what stands behind a backslash is to come
constexpr char kOther = '\x80';   // some character
constexpr char kRecord = '\x1e';  // before each document of a sequence (RFC 7464)

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool begins_scalar(char c) { return is(c, kDigit) || c == '-' || c == 't' || c == 'f' || c == 'n'; }
bool in_scalar(char c) { return is(c, kAlnum) || c == '-' || c == '+' || c == '.'; }

}

JsonNest JsonNest::text() {
  JsonNest nest;
  nest.levels_[0].where = Where::Between;
  return nest;
}
JsonNest JsonNest::document() {
  JsonNest nest = text();
  nest.levels_[0].bare = true;
  return nest;
}
JsonNest JsonNest::inside_string() {
  JsonNest nest;
  nest.levels_[0].where = Where::String;
  nest.levels_[1].where = Where::Between;
  return nest;
}

size_t JsonNest::depth() const noexcept {
  size_t depth = 0;
  while (depth < kMaxLevels && levels_.at(depth).where == Where::String) ++depth;
  return depth;
}

void JsonNest::feed(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); ++at) {
    const Level& outer = levels_[0];
    if (outer.where == Where::Nowhere) return;
    if (outer.where == Where::String && outer.escape == 0 && levels_[1].where == Where::Nowhere)
      while (bytes[at] != '"' && bytes[at] != '\\')
        if (++at == bytes.size()) return;
    byte(0, bytes[at]);
  }
}

void JsonNest::byte(size_t index, char c) {
  Level& level = levels_.at(index);
  if (level.where == Where::String) return string_byte(index, c);
  if (level.where == Where::Scalar) {
    if (in_scalar(c)) return;
    level.where = level.open > 0 ? Where::Behind : Where::Between;
  }
  if (level.where == Where::Between) return between(index, c);
  if (is_white(c)) return;
  switch (level.where) {
    case Where::FirstElement:
      return c == ']' ? close(level, true) : value(index, c);
    case Where::Value:
      return value(index, c);
    case Where::FirstName:
      if (c == '}') return close(level, false);
      [[fallthrough]];
    case Where::Name:
      if (c == '"') return begin_string(index, true);
      break;
    case Where::Colon:
      if (c != ':') break;
      level.where = Where::Value;
      return;
    case Where::Behind:
      if (c == '}' || c == ']') return close(level, c == ']');
      if (c != ',') break;
      level.where = (level.arrays & 1) != 0 ? Where::Value : Where::Name;
      return;
    default:
      break;
  }
  level.where = Where::Nowhere;
}

void JsonNest::between(size_t index, char c) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  Level& level = levels_.at(index);
  const bool apart =
      is_white(c) ||
      (index == 0 && (c == kRecord || kByteOrderMark.find(c) != kByteOrderMark.npos));
  if (apart) return;
  if (c == '{' || c == '[' || level.bare) return value(index, c);
  level.where = Where::Nowhere;
}

void JsonNest::value(size_t index, char c) {
  Level& level = levels_.at(index);
  if (c == '"') return begin_string(index, false);
  if (c == '{' || c == '[') return open(level, c == '[');
  level.where = begins_scalar(c) ? Where::Scalar : Where::Nowhere;
}

void JsonNest::open(Level& level, bool array) {
  level.where = array ? Where::FirstElement : Where::FirstName;
  level.arrays = level.arrays << 1 | (array ? 1 : 0);
  if (++level.open == kMaxOpen) level.where = Where::Nowhere;
}

void JsonNest::close(Level& level, bool array) {
  if (((level.arrays & 1) != 0) != array) {
    level.where = Where::Nowhere;
    return;
  }
  level.arrays >>= 1;
  level.where = --level.open > 0 ? Where::Behind : Where::Between;
  level.any = true;
}

void JsonNest::begin_string(size_t index, bool name) {
  Level& level = levels_.at(index);
  level.where = Where::String;
  level.name = name;
  if (index + 1 == kMaxLevels) return;
  levels_.at(index + 1) = Level{};
  levels_.at(index + 1).where = Where::Between;
}

void JsonNest::string_byte(size_t index, char c) {
  Level& level = levels_.at(index);
  if (level.escape == kLetter) {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    level.escape = c == 'u' ? kLetter - 1 : 0;
    level.code = 0;
    if (c == 'u') return;
    const size_t at = kShort.find(c);
    if (at != kShort.npos) return content(index, kMeaning[at]);
    level.where = Where::Nowhere;
  } else if (level.escape > 0) {
    if (!is_hex(c)) {
      level.where = Where::Nowhere;
      return;
    }
    const auto digit = static_cast<uint32_t>(is(c, kDigit) ? c - '0' : lower(c) - 'a' + 10);
    level.code = level.code << 4 | digit;
    if (--level.escape == 0)
      content(index, level.code < 0x80 ? static_cast<char>(level.code) : kOther);
  } else if (c == '"') {
    level.where = level.open > 0 ? Where::Behind : Where::Between;
    if (level.name) level.where = Where::Colon;
  } else if (c == '\\') {
    level.escape = kLetter;
  } else if (static_cast<uint8_t>(c) < 0x20 && index > 0) {
    level.where = Where::Nowhere;  // it would have to be escaped
  } else {
    content(index, c);
  }
}

void JsonNest::content(size_t index, char c) {
  if (index + 1 < kMaxLevels && levels_.at(index + 1).where != Where::Nowhere) byte(index + 1, c);
}

}
