#pragma once
// OpenAI-shaped providers tell a stream's usage only when the request asks for it. Asking on the
// client's behalf changes two things: one member of the request, and one event of the answer that
// the client did not ask for, which is taken out again.

#include <cstdint>
#include <string>
#include <string_view>

#include "mvm/meter/json.h"

namespace mvm::meter {

// Passes a request's JSON on, and sets stream_options.include_usage where "stream" is true. Any
// size, holding back no more than a word. What is no JSON object passes as it is.
class UsageAsker : private JsonSink {
 public:
  void feed(std::string_view bytes, std::string& out);
  // What is still held back.
  void finish(std::string& out);
  // The request was changed: the client had not asked.
  bool asked() const noexcept { return asked_; }

 private:
  void number(std::string_view, std::string_view) override {}
  void literal(std::string_view path, std::string_view word) override;
  void string(std::string_view, std::string_view) override {}
  void container(std::string_view path, bool empty) override;

  void close_object(std::string& out);

  JsonScanner scanner_;
  std::string held_;  // the word of include_usage
  bool stream_ = false;
  bool has_options_ = false;  // as a member of the request
  bool has_usage_ = false;    // include_usage is among them
  bool asked_ = false;
};

// Passes a stream of events on, without the one that tells nothing but usage: no choices, a usage.
// Holds an event until it is whole, or longer than such a one can be.
class UsageEventRemover {
 public:
  static constexpr size_t kMaxEvent = size_t{16} << 10;
  void feed(std::string_view bytes, std::string& out);
  void finish(std::string& out);
  uint64_t removed() const noexcept { return removed_; }

 private:
  void end_event(std::string& out);
  static bool is_usage_only(std::string_view event);

  std::string event_;
  bool passing_ = false;  // the event is too long to be one
  bool line_empty_ = true;
  bool behind_cr_ = false;
  bool complete_ = false;  // an empty line came: the event ends, but for an LF
  uint64_t removed_ = 0;
};

}
