#pragma once
// The entropy device (virtio 1.2 §5.4): fills the buffers it is given.

#include <array>
#include <cstdint>
#include <span>

#include "mvm/virtio/device.h"

namespace mvm::virtio {

class EntropySource {
 public:
  virtual ~EntropySource() = default;
  // Fills all of `into`, which is guest memory. False when it cannot.
  [[nodiscard]] virtual bool fill(std::span<std::byte> into) noexcept = 0;
};

class Rng : public Device {
 public:
  // A request is filled up to here, however large its buffers claim to be.
  static constexpr uint64_t kMaxRequestBytes = 64 << 10;
  static constexpr uint32_t kRequestsPerTurn = 16;

  // `source` must outlive the device.
  explicit Rng(EntropySource& source) noexcept : source_(source) {}

  DeviceId id() const noexcept override { return DeviceId::Entropy; }
  Features features() const noexcept override { return Features(); }
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override { return {}; }
  void activate(QueueSet queues, Features negotiated) noexcept override;
  void reset() noexcept override;
  Progress process(uint16_t queue) noexcept override;
  Effects take_effects() noexcept override { return effects_.take(); }

 private:
  uint32_t fill(const Chain& chain) noexcept;

  EntropySource& source_;
  QueueSet queues_;
  Effects effects_;
  Chain chain_;
  std::array<iovec, kMaxQueueSize> segments_;
};

}
