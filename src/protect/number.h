#pragma once
// Groups of digits with single separators between them, as people write numbers. The detectors of
// numbers look at runs of whole groups ("555-0100" in "12 555-0100 7"), never at part of a group.

#include <array>
#include <cstdint>
#include <string_view>

#include "window.h"

namespace mvm::protect {

// Small, since these are made for every number of a text.
struct Group {
  uint32_t start;  // in the window
  uint8_t digit;   // index of its first digit
  uint8_t length;
  char separator;  // before it: ' ' '-' '.' '/' or '(' ')' for parentheses; NUL for the first
};

inline constexpr size_t kMaxGroups = 12;
inline constexpr size_t kMaxDigits = 64;

struct Numbers {
  std::array<Group, kMaxGroups> groups;  // only the first `count` are written: this is made often
  std::array<char, kMaxDigits> digits;
  size_t count = 0;   // of groups
  size_t end = 0;     // behind the last digit
  bool open = false;  // more digits follow than we keep

  size_t end_of(size_t group) const { return size_t{groups[group].start} + groups[group].length; }
  // Of that group and those behind it.
  size_t digits_from(size_t group) const {
    const Group& last = groups[count - 1];
    return size_t{last.digit} + last.length - groups[group].digit;
  }
  std::string_view digits_of(size_t first, size_t last) const {
    const size_t to = size_t{groups[last].digit} + groups[last].length;
    return {digits.data() + groups[first].digit, to - groups[first].digit};
  }
};

// From a digit at `at` whose predecessor is none.
Numbers read_numbers(const Window& window, size_t at);

// A run of groups `first` to `last` under question.
struct Candidate {
  const Window& window;
  const Numbers& numbers;
  size_t first;
  size_t last;
  std::string_view digits;

  size_t start() const { return numbers.groups[first].start; }
  size_t end() const { return numbers.end_of(last); }
  char separator(size_t index) const { return numbers.groups[first + index].separator; }
};

// Whether nothing of a longer number or word stands before (behind) the run. `spaced`: the run
// itself has spaces between its groups, so that one more group of the same length belongs to it.
bool clear_before(const Candidate& candidate, bool spaced);
bool clear_after(const Candidate& candidate, bool spaced);

// The rows of `src/protect/shapes.cc` that a run of groups fits. Found with its class.
Found match_shape(const Candidate& candidate, const ClassSet& classes);
// Whether a row begins with groups of these lengths, or is one of the first length.
bool may_start_shape(uint8_t first, uint8_t second) noexcept;

// Phone numbers: with a country code from '+' or "00"; and national ones where words say so.
Found match_phone(const Window& window, const Numbers& numbers, size_t first);
// Whether it could be one, whatever the words before it say.
bool may_be_phone(const Window& window, const Numbers& numbers, size_t first);
Found match_ipv4(const Window& window, const Numbers& numbers, size_t first);
Found match_date(const Window& window, const Numbers& numbers, size_t first);
Found match_coordinates(const Window& window, const Numbers& numbers, size_t first);
Found match_named_month(const Window& window, const Numbers& numbers, size_t first);

}
