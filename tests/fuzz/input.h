#pragma once
// Turns fuzz bytes into choices. Past the end every choice is 0, so any prefix is a valid input.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace mvm::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  template <typename T>
  T take() {
    T value{};
    const size_t length = rest_.size() < sizeof(T) ? rest_.size() : sizeof(T);
    if (length > 0) std::memcpy(&value, rest_.data(), length);
    rest_ = rest_.subspan(length);
    return value;
  }
  uint8_t u8() { return take<uint8_t>(); }
  uint16_t u16() { return take<uint16_t>(); }
  uint32_t u32() { return take<uint32_t>(); }
  uint64_t u64() { return take<uint64_t>(); }
  // 0 to bound - 1.
  uint32_t below(uint32_t bound) { return bound == 0 ? 0 : u16() % bound; }
  // True for about one in `n` byte values; false past the end.
  bool rarely(uint8_t n) { return u8() % n == n - 1; }
  std::span<const uint8_t> bytes(size_t length) {
    const auto out = rest_.first(length < rest_.size() ? length : rest_.size());
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  std::span<const uint8_t> rest_;
};

}
