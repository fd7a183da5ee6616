#pragma once
// The bytes a detector may look at. Every read past the end is noticed: a detector that touched the
// end of a stream that goes on is asked again when more is there, so none of them knows of chunks.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "mvm/protect/finding.h"

namespace mvm::protect {

// Detectors look at most this far behind the start of a value (context words).
inline constexpr size_t kHistory = 160;

class Window {
 public:
  Window(const char* data, size_t size, bool final) noexcept
      : data_(data), size_(size), final_(final) {}

  // NUL past either end. `i` is an index from the start of the buffer.
  char at(size_t i) const noexcept {
    if (i < size_) return data_[i];
    touched_ = true;
    return '\0';
  }
  char before(size_t i) const noexcept { return i == 0 ? '\0' : data_[i - 1]; }
  // [from, to) must be inside.
  std::string_view text(size_t from, size_t to) const noexcept { return {data_ + from, to - from}; }
  // At most `length` bytes before `i`.
  std::string_view behind(size_t i, size_t length) const noexcept {
    const size_t from = i > length ? i - length : 0;
    return {data_ + from, i - from};
  }
  // At most `length` bytes from `i`; notices the end when there are fewer.
  std::string_view ahead(size_t i, size_t length) const noexcept {
    if (i >= size_ || length > size_ - i) {
      touched_ = true;
      length = i < size_ ? size_ - i : 0;
    }
    return {data_ + i, length};
  }
  bool starts_with(size_t i, std::string_view prefix) const noexcept {
    for (size_t k = 0; k < prefix.size(); ++k)
      if (at(i + k) != prefix[k]) return false;
    return true;
  }

  bool undecided() const noexcept { return touched_ && !final_; }
  void forget() const noexcept { touched_ = false; }

 private:
  const char* data_;
  size_t size_;
  bool final_;
  mutable bool touched_ = false;
};

struct Hit {
  size_t start = 0;
  size_t end = 0;
  PiiClass kind = PiiClass::Email;
  std::string_view detail;
};
using Found = std::optional<Hit>;

}
