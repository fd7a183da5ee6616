#pragma once
// The parts of one vsock stream that are pure arithmetic: credit in both directions (virtio 1.2
// §5.10.6.3) and the ring that holds what the guest sent and the host has not taken yet.
//
// All counters are modulo 2^32, as on the wire. The peer's numbers are hostile: nonsense in them
// means no credit, never a wrong size.

#include <algorithm>
#include <cstdint>
#include <span>

#include <sys/uio.h>

#include "mvm/virtio/chain.h"

namespace mvm::virtio {

// What we may still send: the peer's buffer less what is under way.
class SendCredit {
 public:
  uint32_t available() const noexcept {
    const uint32_t under_way = sent_ - peer_forwarded_;
    return under_way >= peer_buffer_ ? 0 : peer_buffer_ - under_way;
  }
  void update(uint32_t peer_buffer, uint32_t peer_forwarded) noexcept {
    peer_buffer_ = peer_buffer;
    peer_forwarded_ = peer_forwarded;
  }
  void sent(uint32_t bytes) noexcept { sent_ += bytes; }

 private:
  uint32_t peer_buffer_ = 0;
  uint32_t peer_forwarded_ = 0;
  uint32_t sent_ = 0;
};

// What the peer may still send: our buffer less what it holds.
class ReceiveCredit {
 public:
  explicit ReceiveCredit(uint32_t buffer = 0) noexcept : buffer_(buffer) {}

  uint32_t buffer() const noexcept { return buffer_; }
  uint32_t forwarded() const noexcept { return forwarded_; }
  uint32_t held() const noexcept { return received_ - forwarded_; }
  // False when the peer sends more than it has credit for.
  [[nodiscard]] bool receive(uint32_t bytes) noexcept {
    if (bytes > buffer_ - held()) return false;
    received_ += bytes;
    return true;
  }
  void forward(uint32_t bytes) noexcept { forwarded_ += bytes; }
  // The peer, going by what we last told it, sees less than half of the buffer free although more
  // is. Announcing earlier would cost a packet for every few bytes, later would stall it.
  bool announcement_due() const noexcept {
    return forwarded_ != announced_ && buffer_ - (received_ - announced_) < buffer_ / 2;
  }
  // forwarded() went out in a packet.
  void announced() noexcept { announced_ = forwarded_; }

 private:
  uint32_t buffer_;
  uint32_t received_ = 0;
  uint32_t forwarded_ = 0;
  uint32_t announced_ = 0;  // value of forwarded_ the peer knows
};

// A byte queue over memory it does not own.
class ByteRing {
 public:
  ByteRing() noexcept = default;
  explicit ByteRing(std::span<std::byte> storage) noexcept : storage_(storage) {}

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { head_ = size_ = 0; }

  // Appends the next `length` bytes of `from`, which fit (the credit says so).
  void append(ChainReader& from, size_t length) noexcept;
  // The contents, oldest first, in one or two segments.
  std::span<const iovec> contents(std::span<iovec, 2> into) const noexcept;
  void consume(size_t length) noexcept;

 private:
  std::span<std::byte> storage_;
  size_t head_ = 0;
  size_t size_ = 0;
};

}
