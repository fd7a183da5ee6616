#pragma once
// One output stream of a command as a result shows it: of long ones the beginning and the end, for
// what went wrong is said last. Holds no more than twice what it shows.

#include <cstdint>
#include <string>
#include <string_view>

namespace mvm::mcp {

class Kept {
 public:
  explicit Kept(size_t limit) : head_room_(limit - limit / 2), tail_room_(limit / 2) {}

  void add(std::string_view bytes);
  uint64_t bytes() const { return bytes_; }
  bool truncated() const { return bytes_ > head_room_ + tail_room_; }
  // With a line in place of what is left out. No character is cut in two by that.
  std::string text() const;

 private:
  size_t head_room_;
  size_t tail_room_;
  uint64_t bytes_ = 0;
  std::string head_;
  std::string tail_;
};

// `text` without the beginning of a UTF-8 character at its end, whose rest did not fit.
std::string_view without_cut_character(std::string_view text);

}
