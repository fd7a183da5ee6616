#pragma once
// How deep within strings of JSON a place is. What a model's tool is called with, and what it
// answers, is JSON in a string of JSON; a value that is put there has to be escaped twice:
//
//   {"name":"send","arguments":"{\"to\":\"…\"}"}
//
// The content of a string is taken for JSON as long as it is the beginning of an object or an
// array, strictly; what stands in the strings of that, likewise.

#include <array>
#include <cstdint>
#include <string_view>

namespace mvm::protect {

class JsonNest {
 public:
  static constexpr size_t kMaxLevels = 4;
  static constexpr size_t kMaxOpen = 64;  // objects and arrays within each other, of one level

  // A text that is JSON if it looks like it; one that is said to be JSON; and the content of a
  // string of JSON, as it is written.
  static JsonNest text();
  static JsonNest document();
  static JsonNest inside_string();

  void feed(std::string_view bytes);

  // Strings within each other around the place behind what was fed.
  size_t depth() const noexcept;
  // Of a document: it may go on here with something that is no string.
  bool is_outside() const noexcept {
    return levels_[0].where != Where::Nowhere && levels_[0].where != Where::String;
  }
  // What was fed is documents, whole ones.
  bool is_whole() const noexcept { return levels_[0].where == Where::Between && levels_[0].any; }
  // inside_string(): its content may be JSON; and is a document that has not ended.
  bool is_json() const noexcept { return levels_[1].where != Where::Nowhere; }
  bool goes_on() const noexcept { return is_json() && levels_[1].where != Where::Between; }

 private:
  enum class Where : uint8_t {
    Nowhere,  // this is no JSON
    Between,  // before a document, and behind one
    Value,
    FirstElement,
    FirstName,
    Name,
    Colon,
    Behind,  // a value
    Scalar,
    String,
  };
  struct Level {
    Where where = Where::Nowhere;
    bool bare = false;    // a document may be more than an object or an array
    bool any = false;     // some document is whole
    bool name = false;    // the string is one
    uint8_t escape = 0;   // kLetter, or how many digits of \uXXXX are still to come
    uint32_t code = 0;    // of those that came
    uint8_t open = 0;     // objects and arrays
    uint64_t arrays = 0;  // which of them are arrays, the innermost in the lowest bit
  };

  void byte(size_t index, char c);
  void string_byte(size_t index, char c);
  void content(size_t index, char c);
  void between(size_t index, char c);
  void value(size_t index, char c);
  void begin_string(size_t index, bool name);
  static void open(Level& level, bool array);
  static void close(Level& level, bool array);

  std::array<Level, kMaxLevels> levels_;
};

}
