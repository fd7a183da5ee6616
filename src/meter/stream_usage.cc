#include "mvm/meter/stream_usage.h"

#include <algorithm>
#include <utility>

namespace mvm::meter {
namespace {

constexpr std::string_view kOptions = "stream_options";
constexpr std::string_view kIncludeUsage = "stream_options.include_usage";

// What an event's data says.
class EventFacts : public JsonSink {
 public:
  void number(std::string_view path, std::string_view) override {
    usage = usage || path.starts_with("usage.");
  }
  void literal(std::string_view, std::string_view) override {}
  void string(std::string_view, std::string_view) override {}
  void container(std::string_view path, bool empty) override {
    if (path == "choices") no_choices = empty;
  }
  bool usage = false;
  bool no_choices = false;
};

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

bool UsageEventRemover::is_usage_only(std::string_view event) {
  std::string data;
  while (!event.empty()) {
    const size_t end = std::min(event.find_first_of("\r\n"), event.size());
    const std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    if (line.starts_with("data:")) {
      data += line.substr(5);
      data += '\n';
    }
  }
  EventFacts facts;
  JsonScanner scanner;
  if (!scanner.feed(data, facts) || !scanner.finish(facts)) return false;
  return facts.usage && facts.no_choices;
}

void UsageEventRemover::end_event(std::string& out) {
  if (!passing_ && is_usage_only(event_)) {
    ++removed_;
  } else {
    out += event_;
  }
  event_.clear();
  passing_ = complete_ = false;
}

void UsageEventRemover::feed(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const bool of_cr = std::exchange(behind_cr_, false) && c == '\n';
    // An empty line ended by CR may have its LF still to come; the event does not wait for it.
    if (complete_ && !of_cr) end_event(out);
    if (passing_) {
      out += c;
    } else {
      event_ += c;
      if (event_.size() > kMaxEvent) {
        out += event_;
        event_.clear();
        passing_ = true;
      }
    }
    if (of_cr) {
      if (complete_) end_event(out);
      continue;
    }
    if (c == '\r' || c == '\n') {
      behind_cr_ = c == '\r';
      if (std::exchange(line_empty_, true)) {
        complete_ = true;
        if (c == '\n') end_event(out);
      }
    } else {
      line_empty_ = false;
    }
  }
}

void UsageEventRemover::finish(std::string& out) { end_event(out); }

}
