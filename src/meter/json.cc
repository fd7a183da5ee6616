#include "mvm/meter/json.h"

#include <charconv>
#include <optional>
#include <utility>

namespace mvm::meter {

static bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool in_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
         c == 'E';
}

// RFC 8259 §6.
static bool is_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const size_t first = at;
  const size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[first] == '0')) return false;
  if (at < text.size() && text[at] == '.' && (++at, digits() == 0)) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

// The name that is written so, where it is one of ASCII; else nothing: no path has others.
static std::optional<std::string> name_of(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    if (++at == text.size()) return std::nullopt;
    constexpr std::string_view kWritten = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (text[at] != 'u') {
      const size_t which = kWritten.find(text[at]);
      if (which == kWritten.npos) return std::nullopt;
      out += kMeant[which];
      continue;
    }
    constexpr unsigned kLast = 0x7f;
    const std::string_view digits = text.substr(at + 1, 4);
    unsigned code = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || read.ptr != digits.data() + 4 || code > kLast) return std::nullopt;
    out += static_cast<char>(code);
    at += 4;
  }
  return out;
}

void JsonScanner::reset() {
  where_ = Where::Value;
  is_name_ = escape_ = failed_ = first_element_ = false;
  dark_ = 0;
  path_.clear();
  text_.clear();
  depth_.clear();
}

bool JsonScanner::feed(std::string_view bytes, JsonSink& sink) {
  if (failed_) return false;
  for (size_t at = 0; at < bytes.size();) {
    if (where_ == Where::String) {
      at += string_run(bytes.substr(at), sink);
      continue;
    }
    const char c = bytes[at];
    if (where_ == Where::Scalar) {
      if (in_scalar(c)) {
        if (text_.size() == kMaxNumber) return fail();
        text_ += c;
        ++at;
        continue;
      }
      if (!end_scalar(sink)) return fail();
    }
    if (!is_white(c) && !structural(c, sink)) return fail();
    ++at;
  }
  return true;
}

bool JsonScanner::finish(JsonSink& sink) {
  if (failed_) return false;
  if (where_ == Where::Scalar && !end_scalar(sink)) return fail();
  return idle();
}

// Takes what belongs to the string, and its closing quote; says how much that was.
size_t JsonScanner::string_run(std::string_view bytes, JsonSink& sink) {
  size_t end = 0;
  bool closed = false;
  while (end < bytes.size() && !closed) {
    if (!escape_)
      while (end < bytes.size() && bytes[end] != '"' && bytes[end] != '\\') ++end;
    if (end == bytes.size()) break;
    const char c = bytes[end];
    if (escape_) {
      escape_ = false;
    } else if (c == '\\') {
      escape_ = true;
    } else if (c == '"') {
      closed = true;
      break;
    }
    ++end;
  }
  const std::string_view run = bytes.substr(0, end);
  if (text_.size() < kMaxText) text_ += run.substr(0, kMaxText - text_.size());
  if (!is_name_ && dark_ == 0 && !run.empty()) sink.string_bytes(path_, run);
  if (!closed) return end;
  end_string(sink);
  return end + 1;
}

void JsonScanner::end_string(JsonSink& sink) {
  if (is_name_) {
    // One that is too long to be kept whole is none that anybody asks for.
    if (text_.find('\\') == text_.npos)
      name_member(text_);
    else
      name_member(text_.size() == kMaxText ? "" : name_of(text_).value_or(""));
    where_ = Where::Colon;
    return;
  }
  if (dark_ == 0) sink.string(path_, text_);
  value_done(sink);
}

bool JsonScanner::end_scalar(JsonSink& sink) {
  const bool literal = text_ == "true" || text_ == "false" || text_ == "null";
  if (!literal && !is_number(text_)) return false;
  if (dark_ == 0) {
    if (literal)
      sink.literal(path_, text_);
    else
      sink.number(path_, text_);
  }
  value_done(sink);
  return true;
}

// The path of the member or element that begins. A name that could be taken for a path of its own,
// or that makes the path too long, and all below it, is not told.
void JsonScanner::name_member(std::string_view name) {
  Level& level = depth_.back();
  path_.resize(level.path);
  if (std::exchange(level.dark, false)) --dark_;
  const size_t length = level.path + (level.path == 0 ? 0 : 1) + name.size();
  if (length > kMaxPath || name.empty() ||
      name.find_first_of(level.object ? ".[]\\" : ".\\") != std::string_view::npos) {
    level.dark = true;
    ++dark_;
    return;
  }
  if (level.path != 0) path_ += '.';
  path_ += name;
}

bool JsonScanner::open(bool object) {
  if (depth_.size() == kMaxDepth) return false;
  if (!depth_.empty()) depth_.back().members = true;
  depth_.push_back({object, false, static_cast<uint16_t>(path_.size()), false});
  where_ = object ? Where::FirstName : Where::Value;
  first_element_ = !object;
  if (!object) name_member("[]");
  return true;
}

bool JsonScanner::close(bool object, JsonSink& sink) {
  if (depth_.empty() || depth_.back().object != object) return false;
  const Level level = depth_.back();
  if (level.dark) --dark_;
  path_.resize(level.path);
  depth_.pop_back();
  first_element_ = false;
  if (dark_ == 0) sink.container(path_, !level.members);
  value_done(sink);
  return true;
}

void JsonScanner::value_done(JsonSink& sink) {
  text_.clear();
  if (!depth_.empty()) {
    depth_.back().members = true;
    where_ = Where::Behind;
    return;
  }
  path_.clear();
  where_ = Where::Value;
  sink.document_end();
}

bool JsonScanner::begin_value(char c, JsonSink& sink) {
  if (c == ']' && first_element_) return close(false, sink);
  first_element_ = false;
  switch (c) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      text_.clear();
      is_name_ = false;
      where_ = Where::String;
      return true;
    default:
      if (!in_scalar(c)) return false;
      text_.assign(1, c);
      where_ = Where::Scalar;
      return true;
  }
}

bool JsonScanner::structural(char c, JsonSink& sink) {
  switch (where_) {
    case Where::Value:
      return begin_value(c, sink);
    case Where::FirstName:
      if (c == '}') return close(true, sink);
      [[fallthrough]];
    case Where::Name:
      if (c != '"') return false;
      text_.clear();
      is_name_ = true;
      where_ = Where::String;
      return true;
    case Where::Colon:
      if (c != ':') return false;
      text_.clear();
      where_ = Where::Value;
      return true;
    case Where::Behind:
      if (c == '}') return close(true, sink);
      if (c == ']') return close(false, sink);
      if (c != ',') return false;
      where_ = depth_.back().object ? Where::Name : Where::Value;
      return true;
    case Where::String:
    case Where::Scalar:
      break;
  }
  return false;
}

}
