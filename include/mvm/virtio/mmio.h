#pragma once
// The virtio-mmio transport, version 2 (virtio 1.2 §4.2), as an exact state machine.
//
// Status moves only along the table in mmio.cc, or to 0 (reset), or gains FAILED. A register that
// configures something can be written only in the state for that: feature words while the status is
// ACKNOWLEDGE|DRIVER, queue registers between FEATURES_OK and DRIVER_OK and while the queue is not
// ready. DRIVER_OK freezes the queues (queue.h). Any other write, and any write of a register that
// is not an aligned 32-bit one, changes nothing.
//
// Reads have no effect, so what they give is kept in a page (register_page.h) that the guest may
// see directly. Every write that changes what another register reads as (selectors, QueueReady,
// Status) has to be applied before the driver's next read; what merely prepares a write of Status
// may come late, but in order. Past the end of the configuration space all reads as 0.
//
// Threads. The transport and its device belong to one lock that the monitor holds around every call
// here and around every call into the device, whether it comes from a vCPU thread (register
// access) or from the loop thread (queue kicks, host events). Two need none: read(), and a write of
// InterruptACK (needs_lock()), because a guest's interrupt handler must not wait for a disk
// request.
//
// Interrupts. InterruptACK may come late, too, if Signals::take_acknowledgements() fetches what has
// come. A driver reads InterruptStatus, acknowledges what it read, and then looks at its queues and
// its configuration. Late, an acknowledgement might take back an interrupt that the driver has not
// seen. It does not, because all that were written are taken before a bit is set: one that is
// written after that, and takes the bit back, is followed by a look that sees what the bit stood
// for. At worst a bit stays set until the next interrupt, and makes the driver look at queues where
// nothing is new.
//
// Kicks. With an ioeventfd on QueueNotify the loop thread calls process(queue). A QueueNotify write
// that does arrive here, and activation (the driver may have filled queues before), call
// Signals::kick, which is to make the loop thread do the same.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/virtio/device.h"
#include "mvm/virtio/queue.h"
#include "mvm/virtio/register_page.h"
#include "mvm/virtio/spec.h"

namespace mvm::virtio {

// §4.2.2.
namespace mmio {
inline constexpr uint64_t kMagic = 0x000;
inline constexpr uint64_t kVersion = 0x004;
inline constexpr uint64_t kDeviceId = 0x008;
inline constexpr uint64_t kVendorId = 0x00c;
inline constexpr uint64_t kDeviceFeatures = 0x010;
inline constexpr uint64_t kDeviceFeaturesSelect = 0x014;
inline constexpr uint64_t kDriverFeatures = 0x020;
inline constexpr uint64_t kDriverFeaturesSelect = 0x024;
inline constexpr uint64_t kQueueSelect = 0x030;
inline constexpr uint64_t kQueueSizeMax = 0x034;
inline constexpr uint64_t kQueueSize = 0x038;
inline constexpr uint64_t kQueueReady = 0x044;
inline constexpr uint64_t kQueueNotify = 0x050;
inline constexpr uint64_t kInterruptStatus = 0x060;
inline constexpr uint64_t kInterruptAck = 0x064;
inline constexpr uint64_t kStatus = 0x070;
inline constexpr uint64_t kQueueDescriptorLow = 0x080;
inline constexpr uint64_t kQueueDescriptorHigh = 0x084;
inline constexpr uint64_t kQueueDriverLow = 0x090;
inline constexpr uint64_t kQueueDriverHigh = 0x094;
inline constexpr uint64_t kQueueDeviceLow = 0x0a0;
inline constexpr uint64_t kQueueDeviceHigh = 0x0a4;
inline constexpr uint64_t kSharedMemorySelect = 0x0ac;
inline constexpr uint64_t kSharedMemoryLengthLow = 0x0b0;
inline constexpr uint64_t kSharedMemoryLengthHigh = 0x0b4;
inline constexpr uint64_t kSharedMemoryBaseLow = 0x0b8;
inline constexpr uint64_t kSharedMemoryBaseHigh = 0x0bc;
inline constexpr uint64_t kQueueReset = 0x0c0;
inline constexpr uint64_t kConfigGeneration = 0x0fc;
inline constexpr uint64_t kConfig = 0x100;
inline constexpr uint64_t kWindow = 0x1000;  // address space one device takes

inline constexpr uint32_t kInterruptUsedBuffer = 1;
inline constexpr uint32_t kInterruptConfigChange = 2;
}

// What the transport asks of the monitor. Called with the device lock held; must not call back.
class Signals {
 public:
  virtual ~Signals() = default;
  // Inject the device's interrupt (an edge).
  virtual void raise_interrupt() noexcept = 0;
  // Have the loop thread call process(queue) soon.
  virtual void kick(uint16_t queue) noexcept = 0;
  // Where the guest's writes of InterruptACK wait somewhere: write() those that have come. It may
  // call back for that register, and no other.
  virtual void take_acknowledgements() noexcept {}
};

class MmioTransport {
 public:
  // All must outlive the transport. `page` shows the registers, see RegisterPage; without one they
  // are kept here, for read() alone.
  MmioTransport(const memory::GuestMemory& memory, Device& device, Signals& signals,
                std::span<std::byte> page = {});
  MmioTransport(const MmioTransport&) = delete;
  MmioTransport& operator=(const MmioTransport&) = delete;

  // A guest access at `offset` within the device's window, of data.size() bytes (1, 2, 4 or 8).
  void read(uint64_t offset, std::span<std::byte> data) const noexcept;
  void write(uint64_t offset, ByteView data) noexcept;
  static constexpr bool needs_lock(uint64_t offset) noexcept {
    return offset != mmio::kInterruptAck;
  }

  // Serves a queue after a kick and settles. Does nothing for an index out of range, or while the
  // device does not run. More: call again.
  Progress process(uint16_t queue) noexcept;
  // Turns the device's effects into interrupts and status. Call it, under the same lock, after any
  // direct call into the device (host input, stream events).
  void settle() noexcept;

  // DRIVER_OK, and neither FAILED nor in need of a reset.
  bool running() const noexcept { return status_ == kRunning; }
  uint8_t status() const noexcept { return status_; }
  Features negotiated() const noexcept { return driver_features_; }
  uint16_t queue_count() const noexcept { return static_cast<uint16_t>(registers_.size()); }
  // The fault that made the device need a reset; given once, for the log.
  std::optional<QueueFault> take_fault() noexcept;

 private:
  static constexpr uint8_t kRunning =
      kStatusAcknowledge | kStatusDriver | kStatusFeaturesOk | kStatusDriverOk;

  void write_register(uint64_t offset, uint32_t value) noexcept;
  void write_status(uint32_t value) noexcept;
  void write_queue(uint64_t offset, uint32_t value) noexcept;
  bool features_acceptable() const noexcept;
  void activate() noexcept;
  void reset() noexcept;
  void fail(QueueFault fault) noexcept;
  void interrupt(uint32_t bits) noexcept;
  void set_status(uint8_t status) noexcept;
  void show_selected_features() noexcept;
  void show_selected_queue() noexcept;
  Features offered() const noexcept;
  void reset_registers() noexcept;

  const memory::GuestMemory& memory_;
  Device& device_;
  Signals& signals_;

  std::vector<std::byte> own_page_;
  RegisterPage page_;
  uint8_t status_ = 0;
  uint32_t device_features_select_ = 0;
  uint32_t driver_features_select_ = 0;
  Features driver_features_;
  uint32_t queue_select_ = 0;
  std::optional<QueueFault> fault_;
  std::vector<QueueRegisters> registers_;
  std::vector<std::optional<Queue>> queues_;
};

}
