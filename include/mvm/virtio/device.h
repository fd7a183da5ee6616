#pragma once
// What a transport needs to know of a device, and the other way round.
//
// A device is a pure core: no descriptors, threads or locks of its own, no KVM. It is handed active
// queues and leaves *effects* behind, which its transport turns into interrupts and status bits.
// Everything here is called under one lock per device that the monitor holds (mmio.h says where).

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "mvm/base/bytes.h"
#include "mvm/virtio/queue.h"
#include "mvm/virtio/spec.h"

namespace mvm::virtio {

// What a device wants done after a call into it.
struct Effects {
  bool used_buffers = false;        // interrupt: the driver wants to hear of used buffers
  bool config_changed = false;      // interrupt, and a new configuration generation
  std::optional<QueueFault> fault;  // the driver broke the contract: the device needs a reset

  Effects take() noexcept { return std::exchange(*this, Effects{}); }
};

// How a bounded piece of work ended.
enum class Progress : uint8_t {
  Idle,  // nothing left; the driver will kick
  More,  // the budget ended first: call again after others had their turn
};

// A device's queues by index; one that the driver did not make ready is absent.
using QueueSet = std::span<std::optional<Queue>>;

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceId id() const noexcept = 0;
  // Device-specific bits; the transport adds those of the rings. Constant.
  virtual Features features() const noexcept = 0;
  // The largest size of each queue, a power of two up to kMaxQueueSize. Constant.
  virtual std::span<const uint16_t> queue_sizes() const noexcept = 0;
  // The configuration space as the driver reads it. Its length is constant; what changes while a
  // driver runs lies within one aligned 64-bit word, since it is read without a lock.
  virtual ByteView config() const noexcept = 0;
  // A driver's write to it, at any offset and of 1, 2, 4 or 8 bytes. Few devices have a field that
  // a driver may write.
  virtual void write_config(uint64_t /*offset*/, ByteView /*data*/) noexcept {}

  // The driver is ready. `queues` stays valid until reset().
  virtual void activate(QueueSet queues, Features negotiated) noexcept = 0;
  // Back to the state after construction as far as the driver can see; the queues are gone when
  // this returns. May be called without activate().
  virtual void reset() noexcept = 0;
  // Serves one queue after a kick. Only while active, for any index that was announced.
  virtual Progress process(uint16_t queue) noexcept = 0;
  virtual Effects take_effects() noexcept = 0;
};

}
