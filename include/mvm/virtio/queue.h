#pragma once
// The split virtqueue, device side (virtio 1.2 §2.7).
//
// A Queue is an *active* queue. It is made from a copy of the registers the driver wrote, checked
// as a whole, with the host pointers of its three areas resolved once. It has no setters: size and
// addresses cannot change between a check and a use. What remains in the guest's hands is the
// contents of the rings, and pop() judges those anew for every chain:
//
//   avail.idx may be at most `size` ahead; the head and every next are below `size`; a head that
//   was popped and not yet pushed back is not accepted again; a chain has at most `size`
//   descriptors, tables included, so loops end; device-readable descriptors come first; every
//   buffer lies within one region of guest memory; all together are at most 4 GiB; an indirect
//   table is allowed only when negotiated, ends its chain, is not nested, and is a whole, non-zero
//   number of descriptors.
//
// The first breach is remembered: the queue is dead from then on and every pop() reports the same
// fault without another look at guest memory. The device asks for a reset.
//
// Ordering: acquire after reading avail.idx, release before writing used.idx, a full fence between
// publishing an index and reading the other side's wish for an event (§2.7.13). Indices are single
// 16-bit loads and stores.

#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>

#include "mvm/base/expected.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/virtio/chain.h"
#include "mvm/virtio/spec.h"

namespace mvm::virtio {

// What the driver wrote for one queue; not trusted, not truncated.
struct QueueRegisters {
  uint16_t max_size = 0;  // what the device offers, at most kMaxQueueSize
  uint32_t size = 0;
  bool ready = false;
  memory::GuestAddress descriptor_area;
  memory::GuestAddress driver_area;  // available ring
  memory::GuestAddress device_area;  // used ring
};

// Where a queue stands; zero at activation, kept across a snapshot.
struct QueuePosition {
  uint16_t next_avail = 0;
  uint16_t next_used = 0;
};

// How a driver can break the contract.
enum class QueueFault : uint8_t {
  BadSize,                // not a power of two from 1 to the maximum
  Misaligned,             // an area is not aligned to 16, 2 or 4
  AreaOutsideMemory,      // an area is not within one region of guest memory
  AvailJump,              // avail.idx ran more than the queue's size ahead
  HeadOutOfRange,         // a head is not below the size
  HeadInFlight,           // a head is offered while the device still has it
  NextOutOfRange,         // a next is not below the size of its table
  ChainTooLong,           // more descriptors than the queue's size: a loop, or greed
  TotalTooLong,           // more than 4 GiB in one chain
  BufferOutsideMemory,    // a buffer is not within one region of guest memory
  ReadableAfterWritable,  // the order of §2.7.4.2 is broken
  IndirectNotNegotiated,  // an indirect table without the feature
  IndirectNested,         // an indirect table inside one
  IndirectWithNext,       // an indirect table that does not end its chain
  IndirectBadLength,      // a table of no, or of broken, descriptors
  BufferTooSmall,         // a buffer that cannot hold what its queue is for
};
std::string_view fault_name(QueueFault fault) noexcept;

class Queue {
 public:
  // `memory` must outlive the queue. Activation and restore are this one function.
  static Expected<Queue, QueueFault> activate(const memory::GuestMemory& memory,
                                              const QueueRegisters& registers, Features negotiated,
                                              QueuePosition position = {}) noexcept;

  uint16_t size() const noexcept { return size_; }
  // Valid for saving when nothing is in flight.
  QueuePosition position() const noexcept { return {next_avail_, next_used_}; }
  size_t in_flight() const noexcept { return in_flight_.count(); }

  // Takes the next available chain: true and `chain` holds it, or false when there is none. Its
  // contents are unspecified after a fault.
  [[nodiscard]] Expected<bool, QueueFault> pop(Chain& chain) noexcept;
  // Undoes the latest pop(), which must not have been pushed or followed by another.
  void put_back(const Chain& chain) noexcept;
  // Gives a popped chain back with `written` bytes written to the start of its writable part
  // (§2.7.8.2: only those, never what was read). `head` must be in flight: anything else is a bug.
  void push(uint16_t head, uint32_t written) noexcept;

  // Whether the driver wants an interrupt for the chains pushed since the last call. Call once
  // after a batch.
  [[nodiscard]] bool should_notify() noexcept;

  // Asks the driver to kick at the next available chain. True when there is one already, that is
  // when the driver may have published it before it could see the wish: then look again.
  [[nodiscard]] bool enable_notifications() noexcept;
  // What the driver has published so far, as it claims; and a wish for a kick when it publishes
  // beyond `index`, which is true when it has already.
  uint16_t published() const noexcept;
  [[nodiscard]] bool notify_beyond(uint16_t index) noexcept;
  // A hint that kicks are not needed for now.
  void disable_notifications() noexcept;

 private:
  Queue() noexcept = default;
  std::optional<QueueFault> walk(uint16_t head, Chain& chain) noexcept;
  std::optional<QueueFault> append(Chain& chain, const Descriptor& descriptor) noexcept;
  const memory::GuestMemory* memory_ = nullptr;
  std::byte* descriptors_ = nullptr;
  std::byte* avail_ = nullptr;
  std::byte* used_ = nullptr;
  uint16_t size_ = 0;
  bool event_index_ = false;
  bool indirect_ = false;
  uint16_t next_avail_ = 0;
  uint16_t next_used_ = 0;
  uint16_t signalled_used_ = 0;  // next_used_ when should_notify() was last asked
  bool signal_always_ = true;    // the first answer after activation or restore
  std::optional<QueueFault> fault_;
  std::bitset<kMaxQueueSize> in_flight_;
};

}
