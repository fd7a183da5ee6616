#include "mvm/meter/stream_usage.h"

#include <cstdint>
#include <utility>

namespace mvm::meter {
namespace {

constexpr std::string_view kOptions = "stream_options";
constexpr std::string_view kIncludeUsage = "stream_options.include_usage";

constexpr std::string_view kData = "data:";
constexpr size_t kOtherLine = kData.size() + 1;

bool is_white(char c) { return c == ' ' || c == '\t'; }

enum class Fit : uint8_t { No, Part, Whole };

// Whether this is how a member "usage":null begins, behind the comma or brace before it, or all of
// it. `name`: where its name does.
Fit fit_of(std::string_view text, size_t& name) {
  size_t at = 1;
  const auto skip_white = [&] {
    while (at < text.size() && is_white(text[at])) ++at;
    return at;
  };
  name = skip_white();
  for (const std::string_view word : {"\"usage\"", ":", "null"}) {
    const std::string_view rest = text.substr(skip_white());
    if (rest.size() < word.size()) return word.starts_with(rest) ? Fit::Part : Fit::No;
    if (!rest.starts_with(word)) return Fit::No;
    at += word.size();
  }
  return skip_white() == text.size() ? Fit::Whole : Fit::No;
}

}

void UsageAsker::literal(std::string_view path, std::string_view word) {
  if (path == "stream") stream_ = word == "true";
  if (path == kOptions) has_options_ = false;  // null
}

void UsageAsker::container(std::string_view path, bool) {
  if (path == kOptions) has_options_ = true;
}

void UsageAsker::close_object(std::string& out) {
  const std::string_view comma = scanner_.has_members() ? "," : "";
  if (scanner_.dark()) return;
  if (scanner_.depth() == 2 && scanner_.container_path() == kOptions && !has_usage_) {
    // Only where it may be set at all will the request be one that is streamed.
    out += comma;
    out += "\"include_usage\":true";
    asked_ = has_usage_ = true;
  } else if (scanner_.depth() == 1 && stream_ && !has_options_) {
    out += comma;
    out += "\"stream_options\":{\"include_usage\":true}";
    asked_ = has_options_ = true;
  }
}

void UsageAsker::feed(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    if (scanner_.failed()) {
      out += c;
      continue;
    }
    const bool quiet = !scanner_.in_string();
    // The word of include_usage waits until it is whole.
    const bool of_word = !scanner_.dark() && scanner_.path() == kIncludeUsage &&
                         scanner_.depth() == 2 && c >= 'a' && c <= 'z' &&
                         (scanner_.at_value() || !held_.empty());
    if (quiet && of_word) {
      held_ += c;
      if (held_.size() > 5) {
        out += held_;  // no word of JSON
        held_.clear();
      }
      scanner_.feed({&c, 1}, *this);
      continue;
    }
    if (!held_.empty()) {
      asked_ = asked_ || held_ != "true";
      has_usage_ = true;
      out += held_ == "false" || held_ == "null" ? "true" : held_;
      held_.clear();
    }
    if (quiet && c == '}' && scanner_.may_close_object()) {
      // A number or word may end at the brace: what it was has to be known first.
      scanner_.feed(" ", *this);
      if (!scanner_.failed()) close_object(out);
    }
    out += c;
    scanner_.feed({&c, 1}, *this);
  }
}

void UsageAsker::finish(std::string& out) {
  out += held_;
  held_.clear();
}

void UsageHider::put(std::string_view text, std::string& out) {
  if (passing_) {
    out += text;
    return;
  }
  event_ += text;
  if (event_.size() <= kMaxEvent) return;
  out += event_;
  event_.clear();
  passing_ = true;
}

void UsageHider::release(std::string& out) {
  put(held_, out);
  held_.clear();
  skip_white_ = false;
}

// Takes the member that is held out when `c` shows it to be whole. True: `c` goes with it.
bool UsageHider::end_member(char c) {
  size_t name = 0;
  if (held_.empty() || fit_of(held_, name) != Fit::Whole || (c != ',' && c != '}')) return false;
  if (held_.front() == '{') {
    held_.resize(name);
    skip_white_ = c == ',';
    return skip_white_;
  }
  // The comma before it goes, white space behind it stays.
  held_.erase(0, held_.find_last_not_of(" \t") + 1);
  return false;
}

void UsageHider::data_byte(char c, std::string& out) {
  const size_t depth = scanner_.depth();
  const bool separates = depth == 1 && !scanner_.in_string() && c == ',';
  if (!scanner_.feed({&c, 1}, *this)) {
    release(out);
    return put({&c, 1}, out);
  }
  if (std::exchange(skip_white_, skip_white_ && is_white(c)) && is_white(c)) return;
  if (end_member(c)) return;
  if (!held_.empty()) {
    size_t name = 0;
    held_ += c;
    if (held_.size() <= kMaxMember && fit_of(held_, name) != Fit::No) return;
    held_.pop_back();
    release(out);
  }
  if (separates || (depth == 0 && scanner_.depth() == 1 && c == '{'))
    held_ = c;
  else
    put({&c, 1}, out);
}

void UsageHider::line_byte(char c, std::string& out) {
  if (column_ == kData.size()) return data_byte(c, out);
  column_ = column_ < kData.size() && c == kData[column_] ? column_ + 1 : kOtherLine;
  put({&c, 1}, out);
}

void UsageHider::end_event(std::string& out) {
  release(out);
  const bool only_usage = usage_ && no_choices_ && scanner_.finish(*this);
  if (!only_usage) out += event_;  // empty, where it is passing
  event_.clear();
  scanner_.reset();
  usage_ = no_choices_ = passing_ = complete_ = false;
}

void UsageHider::feed(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const bool of_cr = std::exchange(behind_cr_, false) && c == '\n';
    // An empty line ended by CR may have its LF still to come; the event does not wait for it.
    if (complete_ && !of_cr) end_event(out);
    if (c != '\r' && c != '\n') {
      line_byte(c, out);
      continue;
    }
    release(out);
    put({&c, 1}, out);
    if (of_cr) {
      if (complete_) end_event(out);
      continue;
    }
    behind_cr_ = c == '\r';
    const size_t column = std::exchange(column_, 0);
    if (column == kData.size()) scanner_.feed("\n", *this);
    if (column != 0) continue;
    complete_ = true;
    if (c == '\n') end_event(out);
  }
}

void UsageHider::finish(std::string& out) { end_event(out); }

}
