#pragma once
// The console device (virtio 1.2 §5.3), port 0 only: bytes out to a sink, bytes in from a small
// buffer, and the size of the host's terminal.

#include <array>
#include <cstdint>
#include <span>

#include "mvm/virtio/device.h"

namespace mvm::virtio {

class ConsoleSink {
 public:
  virtual ~ConsoleSink() = default;
  // Takes all of it, or loses what it has no room for: a guest never waits for a reader of its
  // console. `data` is guest memory and may change while it is read.
  virtual void write(ByteView data) noexcept = 0;
};

class Console : public Device {
 public:
  static constexpr size_t kInputCapacity = 4096;
  // Of one buffer at most this much is output and the rest lost; drivers send up to 32 KiB.
  static constexpr uint64_t kMaxOutputBytes = 64 << 10;
  static constexpr uint32_t kRequestsPerTurn = 32;
  static constexpr uint16_t kReceiveQueue = 0;
  static constexpr uint16_t kTransmitQueue = 1;

  // `sink` must outlive the device.
  explicit Console(ConsoleSink& sink, uint16_t columns = 80, uint16_t rows = 25) noexcept;

  // Bytes typed on the host. Returns how many were taken; the rest must wait for input_space().
  // Call settle() of the transport afterwards, as after resize().
  size_t input(ByteView data) noexcept;
  size_t input_space() const noexcept { return kInputCapacity - input_length_; }
  void resize(uint16_t columns, uint16_t rows) noexcept;

  DeviceId id() const noexcept override { return DeviceId::Console; }
  Features features() const noexcept override;
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override;
  void activate(QueueSet queues, Features negotiated) noexcept override;
  void reset() noexcept override;
  Progress process(uint16_t queue) noexcept override;
  Effects take_effects() noexcept override { return effects_.take(); }

 private:
  struct Config {
    uint16_t columns;
    uint16_t rows;
    uint32_t max_ports;
    uint32_t emergency_write;
  };
  static_assert(sizeof(Config) == 12);

  uint32_t emit(const Chain& chain) noexcept;
  void deliver_input() noexcept;

  ConsoleSink& sink_;
  Config config_{};
  bool reports_size_ = false;
  QueueSet queues_;
  Effects effects_;
  Chain chain_;
  std::array<iovec, kMaxQueueSize> segments_;
  std::array<std::byte, kInputCapacity> input_{};  // [0, input_length_) waits for the driver
  size_t input_length_ = 0;
};

}
