#pragma once
// OpenAI-shaped providers tell a stream's usage only when the request asks for it. Asking on the
// client's behalf changes one member of the request, and two things of the answer, which are taken
// out again: an event that tells the usage, and "usage":null in all the others.

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

// Passes a stream of events on as it would have been had nobody asked for its usage: without the
// event that tells nothing else (no choices, a usage), and without the member "usage":null of the
// others. Holds an event until it is whole, or longer than one of usage can be; of what is longer
// it holds no more than a member that may be that one.
class UsageHider : private JsonSink {
 public:
  static constexpr size_t kMaxEvent = size_t{16} << 10;
  static constexpr size_t kMaxMember = 64;
  void feed(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  void number(std::string_view path, std::string_view) override {
    usage_ = usage_ || path.starts_with("usage.");
  }
  void literal(std::string_view, std::string_view) override {}
  void string(std::string_view, std::string_view) override {}
  void container(std::string_view path, bool empty) override {
    if (path == "choices") no_choices_ = empty;
  }

  void line_byte(char c, std::string& out);
  void data_byte(char c, std::string& out);
  bool end_member(char c);
  void put(std::string_view text, std::string& out);
  void release(std::string& out);
  void end_event(std::string& out);

  std::string event_;
  bool passing_ = false;  // the event is too long to be one of usage
  bool behind_cr_ = false;
  bool complete_ = false;  // an empty line came: the event ends, but for an LF
  size_t column_ = 0;      // of the line, as far as it can be "data:"
  // ---- what its data says
  JsonScanner scanner_;
  bool usage_ = false;
  bool no_choices_ = false;
  std::string held_;  // from a comma or brace on: may be "usage":null
  bool skip_white_ = false;
};

}
