#pragma once
// Cuts what a client sends into lines. Holds one line at most, and of one that is longer nothing.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mvm::mcp {

// A file of kMaxContent (tools.h) in base64, or in JSON's own escapes for line breaks and quotes.
inline constexpr size_t kMaxLine = size_t{8} << 20;

class LineBuffer {
 public:
  explicit LineBuffer(size_t limit = kMaxLine) : limit_(limit) {}

  // To be followed by next() until that gives nothing.
  void feed(std::string_view bytes);

  struct Line {
    std::string text;  // without its line feed
    bool too_long = false;
  };
  std::optional<Line> next();

 private:
  size_t limit_;
  std::string held_;
  size_t begin_ = 0;    // of the line that comes next
  size_t scanned_ = 0;  // up to here there is no line feed
  bool dropping_ = false;
};

}
