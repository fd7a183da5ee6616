#pragma once
// Reader and Writer: the one way to take apart and put together wire and file formats.
//
// The Reader is sticky: after the first read past the end every further read yields zero or
// nothing, and a single check at the end (`if (!in)`) decides. So parsers are straight lines
// without a branch a field.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mvm {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view as_text(ByteView bytes) noexcept {
  // char may alias anything.
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

static_assert(std::endian::native == std::endian::little, "mvm runs on little-endian hosts");

class Reader {
 public:
  explicit Reader(ByteView data) noexcept : rest_(data) {}

  uint8_t u8() noexcept { return le<uint8_t>(); }
  uint16_t u16() noexcept { return le<uint16_t>(); }
  uint32_t u32() noexcept { return le<uint32_t>(); }
  uint64_t u64() noexcept { return le<uint64_t>(); }
  uint16_t u16be() noexcept { return __builtin_bswap16(u16()); }
  uint32_t u32be() noexcept { return __builtin_bswap32(u32()); }
  uint64_t u64be() noexcept { return __builtin_bswap64(u64()); }

  // A trivially copyable struct, copied out.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T read() noexcept {
    return le<T>();
  }

  // A view of the next `length` bytes, empty when there are not that many.
  ByteView bytes(size_t length) noexcept {
    if (length > rest_.size()) {
      fail();
      return {};
    }
    const ByteView out = rest_.first(length);
    rest_ = rest_.subspan(length);
    return out;
  }
  void skip(size_t length) noexcept { bytes(length); }

  size_t remaining() const noexcept { return rest_.size(); }
  ByteView rest() const noexcept { return rest_; }
  void fail() noexcept {
    failed_ = true;
    rest_ = {};
  }
  explicit operator bool() const noexcept { return !failed_; }

 private:
  template <typename T>
  T le() noexcept {
    T value{};
    const ByteView view = bytes(sizeof(T));
    if (!view.empty()) std::memcpy(&value, view.data(), sizeof(T));
    return value;
  }

  ByteView rest_;
  bool failed_ = false;
};

class Writer {
 public:
  explicit Writer(Bytes& out) noexcept : out_(&out) {}

  void u8(uint8_t value) { put(value); }
  void u16(uint16_t value) { put(value); }
  void u32(uint32_t value) { put(value); }
  void u64(uint64_t value) { put(value); }
  void u16be(uint16_t value) { put(__builtin_bswap16(value)); }
  void u32be(uint32_t value) { put(__builtin_bswap32(value)); }
  void u64be(uint64_t value) { put(__builtin_bswap64(value)); }
  void bytes(ByteView data) { out_->insert(out_->end(), data.begin(), data.end()); }
  void text(std::string_view data) { bytes(as_bytes(data)); }
  void zeros(size_t count) { out_->resize(out_->size() + count); }
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  size_t size() const noexcept { return out_->size(); }

 private:
  Bytes* out_;
};

}
