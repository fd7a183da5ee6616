#include "mvm/protect/json.h"

#include <algorithm>

#include "mvm/protect/json_nest.h"
#include "mvm/protect/restore.h"

#include "letters.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

std::optional<uint32_t> four_hex(std::string_view raw, size_t at) {
  if (at + 4 > raw.size()) return std::nullopt;
  uint32_t value = 0;
  for (const char c : raw.substr(at, 4)) {
    if (!is_hex(c)) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(is(c, kDigit) ? c - '0' : lower(c) - 'a' + 10);
  }
  return value;
}

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool in_number(char c) {
  return is(c, kDigit) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}

std::optional<std::string> json_decoded(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    const size_t run = std::min(raw.find('\\', i), raw.size());
    out += raw.substr(i, run - i);
    i = run;
    if (i == raw.size()) break;
    if (++i == raw.size()) return std::nullopt;
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    if (const size_t at = kShort.find(raw[i]); at != std::string_view::npos) {
      out += kMeaning[at];
      continue;
    }
    auto code = raw[i] == 'u' ? four_hex(raw, i + 1) : std::nullopt;
    if (!code) return std::nullopt;
    i += 4;
    if (*code >= 0xd800 && *code < 0xdc00 && raw.substr(i + 1, 2) == "\\u") {
      const auto low = four_hex(raw, i + 3);
      if (low && *low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        i += 6;
      }
    }
    // Half a pair stands for no character; which reader makes what of it is not known.
    if (is_surrogate(*code)) return std::nullopt;
    append_utf8(out, *code);
  }
  return out;
}

// The value of a string.
std::optional<std::string> JsonRewriter::rewritten(std::string_view text) {
  JsonNest nest = JsonNest::text();
  nest.feed(text);
  if (nested_ < kMaxNested && nest.is_whole()) {
    JsonRewriter inner(scanner_, replace_, max_string_, name_, nested_ + 1);
    std::string out;
    if (inner.feed(text, out) && inner.finish(out))
      return out == text ? std::nullopt : std::optional(std::move(out));
    // Half a character, or a number that is too long: it is looked at once more, as text.
  }
  return scanner_->rewritten(name_, text, replace_);
}

// What waits is a value.
bool JsonRewriter::flush_value(std::string& out) {
  const bool string = where_ == Where::Behind;
  const auto text = string ? json_decoded(pending_) : std::optional(pending_);
  if (!text) return false;
  const auto changed = string ? rewritten(*text) : scanner_->rewritten(name_, *text, replace_);
  if (!changed) {
    if (string) out += '"';
    out += pending_;
    if (string) out += '"';
  } else if (!string && std::ranges::all_of(*changed, in_number)) {
    out += *changed;  // a number again
  } else {
    out.append("\"").append(escaped(*changed, Escaping::JsonString)).append("\"");
  }
  out += white_;
  pending_.clear();
  white_.clear();
  where_ = Where::Outside;
  return true;
}

// What waits is the name of the value behind it.
bool JsonRewriter::flush_name(std::string& out) {
  constexpr size_t kMaxLabel = 64;
  const auto name = json_decoded(pending_);
  if (!name) return false;
  name_ = name->substr(0, kMaxLabel);
  const auto changed = scanner_->rewritten({}, *name, replace_);
  out += '"';
  out += changed ? escaped(*changed, Escaping::JsonString) : pending_;
  out += '"';
  out += white_;
  pending_.clear();
  white_.clear();
  where_ = Where::Outside;
  return true;
}

bool JsonRewriter::string_byte(char c) {
  if (!escape_ && c == '"') {
    where_ = Where::Behind;
    return true;
  }
  escape_ = !escape_ && c == '\\';
  pending_ += c;
  return pending_.size() <= max_string_;
}

bool JsonRewriter::outside_byte(char c, std::string& out) {
  if (c == '"') {
    where_ = Where::String;
    return true;
  }
  if (is(c, kDigit) || c == '-') {
    where_ = Where::Number;
    pending_ += c;
    return true;
  }
  // A name speaks for its value, and for every element of an array.
  if (c == '{' || c == '}' || c == '\n') name_.clear();
  out += c;
  return true;
}

// How much of the front of `text` changes nothing but what is appended.
static size_t plain_run(std::string_view text, bool in_string) {
  size_t length = 0;
  if (in_string) {
    while (length < text.size() && text[length] != '"' && text[length] != '\\') ++length;
    return length;
  }
  while (length < text.size() && text[length] != '"' && text[length] != '{' &&
         text[length] != '}' && text[length] != '\n' && text[length] != '-' &&
         !is(text[length], kDigit))
    ++length;
  return length;
}

bool JsonRewriter::feed(std::string_view bytes, std::string& out) {
  if (failed_) return false;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (where_ == Where::Outside || (where_ == Where::String && !escape_)) {
      const bool in_string = where_ == Where::String;
      const std::string_view run = bytes.substr(at, plain_run(bytes.substr(at), in_string));
      (in_string ? pending_ : out) += run;
      at += run.size();
      if (pending_.size() > max_string_) failed_ = true;
      if (failed_) return false;
      if (at == bytes.size()) break;
    }
    const char c = bytes[at];
    bool fine = true;
    switch (where_) {
      case Where::String:
        fine = string_byte(c);
        break;
      case Where::Number:
        if (in_number(c)) {
          pending_ += c;
          fine = pending_.size() <= kMaxNumber;
          break;
        }
        fine = flush_value(out) && outside_byte(c, out);
        break;
      case Where::Behind:
        if (is_white(c)) {
          white_ += c;
          fine = white_.size() <= max_string_;
        } else if (c == ':') {
          fine = flush_name(out);
          out += c;
        } else {
          fine = flush_value(out) && outside_byte(c, out);
        }
        break;
      case Where::Outside:
        fine = outside_byte(c, out);
        break;
    }
    if (!fine) {
      failed_ = true;
      return false;
    }
  }
  return true;
}

bool JsonRewriter::finish(std::string& out) {
  if (failed_ || where_ == Where::String) return false;
  return where_ == Where::Outside || flush_value(out);
}

}
