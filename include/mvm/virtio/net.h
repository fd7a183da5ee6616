#pragma once
// The network device (virtio 1.2 §5.1): one pair of queues, offloads as the driver accepts them,
// mergeable receive buffers. Frames go to and come from a port, which on a host is a TAP.

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mvm/base/token_bucket.h"
#include "mvm/virtio/device.h"
#include "mvm/virtio/frame_gate.h"

namespace mvm::virtio {

// Which work the guest's driver leaves to us in frames that it receives.
struct ReceiveOffloads {
  bool checksum = false;
  bool tso4 = false;
  bool tso6 = false;
  bool ecn = false;
  bool operator==(const ReceiveOffloads&) const = default;
};

class FramePort {
 public:
  virtual ~FramePort() = default;
  // A frame behind its NetHeader, of which all but the first segment's bytes are guest memory.
  // Takes it or loses it: a network may.
  virtual void send(std::span<const iovec> frame) noexcept = 0;
  // The next frame, behind its NetHeader. Bytes; nothing when none waits.
  virtual std::optional<size_t> receive(std::span<const iovec> into) noexcept = 0;
  virtual void set_offloads(const ReceiveOffloads& offloads) noexcept = 0;
};

class Net : public Device {
 public:
  static constexpr uint16_t kReceiveQueue = 0;
  static constexpr uint16_t kTransmitQueue = 1;
  static constexpr uint32_t kFramesPerTurn = 64;

  // How receive() ended.
  enum class Received : uint8_t {
    Drained,  // no frame waits at the port
    More,     // the budget ended first
    Starved,  // the guest has no buffers: call again after its next kick
  };

  using Clock = TokenBucket::Time (*)();
  // `port` must outlive the device. `mtu` is told to the driver. The link comes up with the first
  // buffer for a frame.
  // Of frames that begin something, `beginnings` a second pass, and as many at once after a quiet
  // one; 0: all.
  Net(FramePort& port, const FrameOwner& owner, uint16_t mtu, uint64_t beginnings,
      Clock clock = &std::chrono::steady_clock::now) noexcept;

  // Moves frames from the port to the guest. Call when the port has some.
  Received receive() noexcept;
  // Frames of the guest that did not pass the gate, by fault.
  const std::array<uint64_t, kFrameFaults>& refused() const noexcept { return refused_; }

  DeviceId id() const noexcept override { return DeviceId::Network; }
  Features features() const noexcept override;
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override;
  void activate(QueueSet queues, Features negotiated) noexcept override;
  void reset() noexcept override;
  // A kick of the receive queue does nothing by itself: the owner calls receive().
  Progress process(uint16_t queue) noexcept override;
  Effects take_effects() noexcept override { return effects_.take(); }

 private:
  struct Config {
    std::array<uint8_t, 6> mac;
    uint16_t status;
    uint16_t max_queue_pairs;
    uint16_t mtu;
  };
  static_assert(sizeof(Config) == 12);

  // A receive buffer that was taken and is still empty: its chain's head, and how many of
  // the segments are its own.
  struct Waiting {
    uint16_t head;
    uint16_t segments;
    uint32_t bytes;
  };

  void transmit(const Chain& chain) noexcept;
  std::optional<FrameFault> judge(NetHeader& header, ByteView start, uint64_t length) noexcept;
  // Takes buffers until a frame of any size fits. False when there are not enough.
  bool gather_room(Queue& queue) noexcept;
  bool take_buffer(Queue& queue) noexcept;
  void deliver(Queue& queue, size_t length) noexcept;
  std::span<iovec> segments() noexcept { return std::span(segments_).first(segment_count_); }
  void release(size_t buffers, size_t segments) noexcept;

  FramePort& port_;
  FrameOwner owner_;
  Clock clock_;
  TokenBucket beginnings_;
  Config config_{};
  Features negotiated_;
  uint64_t frame_room_ = 0;  // bytes that a received frame may have, header included
  QueueSet queues_;
  Effects effects_;
  Chain chain_;
  std::array<iovec, kMaxQueueSize + 2> outgoing_;
  std::array<std::byte, kGateBytes> start_;

  std::vector<Waiting> waiting_;
  std::vector<iovec> segments_;  // as many as fit; the first segment_count_ are the buffers'
  size_t segment_count_ = 0;
  uint64_t room_ = 0;  // bytes of all waiting buffers
  std::array<uint64_t, kFrameFaults> refused_{};
};

}
