#pragma once
// One buffer of a virtqueue as the device sees it: a list of host spans that were all checked when
// the chain was popped, and cursors that move over them forwards only.
//
// Forwards only is the point. The guest can change the bytes at any time, so what was read is a
// copy and cannot be fetched a second time by accident; and a header or payload may be cut into
// descriptors in any way whatever (§2.7.4.1), so nothing here or above knows where one descriptor
// ends and the next begins.
//
// Spans point into guest memory and stay good as long as the GuestMemory lives. A Chain is a fixed
// 4 KiB object that a device owns and reuses: popping allocates and copies nothing.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include <sys/uio.h>

#include "mvm/base/bytes.h"
#include "mvm/virtio/spec.h"

namespace mvm::virtio {

// Hides `value` from the optimiser. After a copy out of guest memory this makes the copy the only
// source: without it the compiler may load the guest's bytes again in place of the local variable.
template <typename T>
inline void pin_copy(T& value) noexcept {
  asm volatile("" : "+m"(value));
}

class ChainCursor {
 public:
  explicit ChainCursor(std::span<const iovec> segments) noexcept;

  // Bytes from here to the end; at most 4 GiB.
  uint64_t remaining() const noexcept { return remaining_; }
  // Bytes passed since construction.
  uint64_t position() const noexcept { return position_; }
  // Moves on by `length` bytes, or to the end. Returns how far it moved.
  uint64_t skip(uint64_t length) noexcept;
  // The next `length` bytes as segments for readv or writev, cut short when `into` or the chain
  // ends first; does not move. kMaxQueueSize segments are always enough.
  std::span<const iovec> gather(uint64_t length, std::span<iovec> into) const noexcept;

 protected:
  // The rest of the present segment, never empty unless the cursor is at the end.
  std::span<std::byte> segment() const noexcept;

 private:
  std::span<const iovec> rest_;
  uint64_t offset_ = 0;  // within rest_.front()
  uint64_t remaining_ = 0;
  uint64_t position_ = 0;
};

// Over the device-readable part.
class ChainReader : public ChainCursor {
 public:
  using ChainCursor::ChainCursor;

  // Copies out, and moves on by, as many bytes as there are. Returns how many.
  size_t read(std::span<std::byte> into) noexcept;
  // A struct, or nothing (and no move) when fewer bytes remain.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  std::optional<T> read_value() noexcept {
    if (remaining() < sizeof(T)) return std::nullopt;
    T value{};
    read(std::as_writable_bytes(std::span(&value, 1)));
    pin_copy(value);
    return value;
  }
};

// Over the device-writable part. There is no way to read through it.
class ChainWriter : public ChainCursor {
 public:
  using ChainCursor::ChainCursor;

  // Copies in as many bytes as fit. Returns how many.
  size_t write(ByteView data) noexcept;
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  size_t write_value(const T& value) noexcept {
    return write(std::as_bytes(std::span(&value, 1)));
  }
};

class Chain {
 public:
  // The descriptor index to complete it with.
  uint16_t head() const noexcept { return head_; }
  uint64_t readable_length() const noexcept { return readable_length_; }
  uint64_t writable_length() const noexcept { return writable_length_; }
  ChainReader reader() const noexcept { return ChainReader(std::span(segments_).first(readable_)); }
  ChainWriter writer() const noexcept {
    return ChainWriter(std::span(segments_).subspan(readable_, writable_));
  }

 private:
  friend class Queue;

  uint16_t head_ = 0;
  uint16_t readable_ = 0;  // segments, which come first
  uint16_t writable_ = 0;  // segments
  uint64_t readable_length_ = 0;
  uint64_t writable_length_ = 0;
  std::array<iovec, kMaxQueueSize> segments_;
};

}
