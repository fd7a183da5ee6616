#include "mvm/virtio/queue.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mvm::virtio {
namespace {

constexpr uint64_t kMaxChainBytes = uint64_t{4} << 30;

// Offsets in the rings: le16 flags, le16 idx, then the elements.
constexpr size_t kRingIndex = 2;
constexpr size_t kRingElements = 4;
constexpr size_t kUsedElementSize = 8;

// Orders our store of an index or wish before our load of the other side's (§2.7.13). The thread
// sanitizer does not follow fences; here they order nothing but accesses that are atomic anyway.
void full_fence() noexcept {
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#pragma GCC diagnostic pop
}

Descriptor copy_descriptor(const std::byte* at) noexcept {
  Descriptor copy;
  std::memcpy(&copy, at, sizeof copy);
  pin_copy(copy);
  return copy;
}

}

std::string_view fault_name(QueueFault fault) noexcept {
  switch (fault) {
    case QueueFault::BadSize:
      return "queue size is not a power of two up to the maximum";
    case QueueFault::Misaligned:
      return "queue area is misaligned";
    case QueueFault::AreaOutsideMemory:
      return "queue area is outside guest memory";
    case QueueFault::AvailJump:
      return "available index jumped beyond the queue size";
    case QueueFault::HeadOutOfRange:
      return "descriptor head is out of range";
    case QueueFault::HeadInFlight:
      return "descriptor head is already in flight";
    case QueueFault::NextOutOfRange:
      return "next descriptor is out of range";
    case QueueFault::ChainTooLong:
      return "descriptor chain loops or is longer than the queue";
    case QueueFault::TotalTooLong:
      return "descriptor chain is longer than 4 GiB";
    case QueueFault::BufferOutsideMemory:
      return "buffer is outside guest memory";
    case QueueFault::ReadableAfterWritable:
      return "readable descriptor follows a writable one";
    case QueueFault::IndirectNotNegotiated:
      return "indirect descriptor was not negotiated";
    case QueueFault::IndirectNested:
      return "indirect descriptor inside an indirect table";
    case QueueFault::IndirectWithNext:
      return "indirect descriptor has a next";
    case QueueFault::IndirectBadLength:
      return "indirect table has a bad length";
    case QueueFault::BufferTooSmall:
      return "buffer is too small for its queue";
  }
  return "unknown fault";
}

Expected<Queue, QueueFault> Queue::activate(const memory::GuestMemory& memory,
                                            const QueueRegisters& registers, Features negotiated,
                                            QueuePosition position) noexcept {
  const uint32_t size = registers.size;
  if (!std::has_single_bit(size) || size > std::min(registers.max_size, kMaxQueueSize))
    return Unexpected{QueueFault::BadSize};
  // §2.7: alignment of the three areas.
  if (registers.descriptor_area.value % 16 != 0 || registers.driver_area.value % 2 != 0 ||
      registers.device_area.value % 4 != 0)
    return Unexpected{QueueFault::Misaligned};
  // With room for used_event and avail_event, whether negotiated or not (§2.7.6, §2.7.8).
  const auto descriptors = memory.slice(registers.descriptor_area, sizeof(Descriptor) * size);
  const auto avail = memory.slice(registers.driver_area, kRingElements + size_t{2} * size + 2);
  const auto used =
      memory.slice(registers.device_area, kRingElements + kUsedElementSize * size + 2);
  if (!descriptors || !avail || !used) return Unexpected{QueueFault::AreaOutsideMemory};

  Queue queue;
  queue.memory_ = &memory;
  queue.descriptors_ = descriptors->data();
  queue.avail_ = avail->data();
  queue.used_ = used->data();
  queue.size_ = static_cast<uint16_t>(size);
  queue.event_index_ = negotiated.has(kFeatureEventIndex);
  queue.indirect_ = negotiated.has(kFeatureIndirectDescriptors);
  queue.next_avail_ = position.next_avail;
  queue.next_used_ = queue.signalled_used_ = position.next_used;
  return queue;
}

Expected<bool, QueueFault> Queue::pop(Chain& chain) noexcept {
  if (fault_) return Unexpected{*fault_};
  const auto broken = [this](QueueFault fault) {
    fault_ = fault;
    return Unexpected{fault};
  };
  // Acquire: what the driver wrote before it moved the index is seen from here on.
  const uint16_t published = memory::load_u16(avail_ + kRingIndex, std::memory_order_acquire);
  const auto waiting = static_cast<uint16_t>(published - next_avail_);
  if (waiting == 0) return false;
  if (waiting > size_) return broken(QueueFault::AvailJump);
  const size_t element = next_avail_ & (size_ - 1U);
  const uint16_t head =
      memory::load_u16(avail_ + kRingElements + 2 * element, std::memory_order_relaxed);
  if (head >= size_) return broken(QueueFault::HeadOutOfRange);
  if (in_flight_.test(head)) return broken(QueueFault::HeadInFlight);
  if (const auto fault = walk(head, chain)) return broken(*fault);
  ++next_avail_;
  in_flight_.set(head);
  return true;
}

void Queue::put_back(const Chain& chain) noexcept {
  MVM_ASSERT(in_flight_.test(chain.head_));
  in_flight_.reset(chain.head_);
  --next_avail_;
}

// Follows a chain through the queue's table and then, when its last descriptor says so, through one
// indirect table. `budget` counts descriptors of both, so neither can loop.
std::optional<QueueFault> Queue::walk(uint16_t head, Chain& chain) noexcept {
  chain.head_ = head;
  chain.readable_ = chain.writable_ = 0;
  chain.readable_length_ = chain.writable_length_ = 0;

  const std::byte* table = descriptors_;
  uint32_t entries = size_;
  uint32_t index = head;
  bool nested = false;
  for (uint32_t budget = size_; budget > 0;) {
    const Descriptor descriptor = copy_descriptor(table + sizeof(Descriptor) * index);
    if ((descriptor.flags & kDescriptorIndirect) != 0) {
      if (!indirect_) return QueueFault::IndirectNotNegotiated;
      if (nested) return QueueFault::IndirectNested;
      if ((descriptor.flags & kDescriptorNext) != 0) return QueueFault::IndirectWithNext;
      if (descriptor.length == 0 || descriptor.length % sizeof(Descriptor) != 0)
        return QueueFault::IndirectBadLength;
      const auto area = memory_->slice({descriptor.address}, descriptor.length);
      if (!area) return QueueFault::BufferOutsideMemory;
      // The pointing descriptor holds no data; the table's own count against the budget. A table
      // may be longer than the chain in it.
      table = area->data();
      entries = descriptor.length / static_cast<uint32_t>(sizeof(Descriptor));
      index = 0;
      nested = true;
      continue;
    }
    if (const auto fault = append(chain, descriptor)) return fault;
    --budget;
    if ((descriptor.flags & kDescriptorNext) == 0) return std::nullopt;
    if (descriptor.next >= entries) return QueueFault::NextOutOfRange;
    index = descriptor.next;
  }
  return QueueFault::ChainTooLong;
}

std::optional<QueueFault> Queue::append(Chain& chain, const Descriptor& descriptor) noexcept {
  const bool writable = (descriptor.flags & kDescriptorWrite) != 0;
  if (!writable && chain.writable_length_ != 0) return QueueFault::ReadableAfterWritable;
  // No bytes, no segment: an empty buffer is odd but harmless, wherever it claims to be.
  if (descriptor.length == 0) return std::nullopt;
  const auto bytes = memory_->slice({descriptor.address}, descriptor.length);
  if (!bytes) return QueueFault::BufferOutsideMemory;
  if (chain.readable_length_ + chain.writable_length_ + descriptor.length > kMaxChainBytes)
    return QueueFault::TotalTooLong;
  chain.segments_[chain.readable_ + chain.writable_] = {bytes->data(), bytes->size()};
  if (writable) {
    ++chain.writable_;
    chain.writable_length_ += descriptor.length;
  } else {
    ++chain.readable_;
    chain.readable_length_ += descriptor.length;
  }
  return std::nullopt;
}

void Queue::push(uint16_t head, uint32_t written) noexcept {
  MVM_ASSERT(head < size_ && in_flight_.test(head));
  in_flight_.reset(head);
  const uint32_t element[2] = {head, written};
  std::byte* at = used_ + kRingElements + kUsedElementSize * (next_used_ & (size_ - 1U));
  std::memcpy(at, element, sizeof element);
  ++next_used_;
  // Release: the element and the data before the index.
  memory::store_u16(used_ + kRingIndex, next_used_, std::memory_order_release);
}

bool Queue::should_notify() noexcept {
  const auto pushed = static_cast<uint16_t>(next_used_ - signalled_used_);
  if (pushed == 0) return false;
  // The driver sets its wish, then looks at used.idx; we set used.idx, then look at its wish.
  full_fence();
  const bool always = std::exchange(signal_always_, false);
  signalled_used_ = next_used_;
  if (!event_index_)
    return (memory::load_u16(avail_, std::memory_order_relaxed) & kAvailNoInterrupt) == 0;
  const uint16_t wish =
      memory::load_u16(avail_ + kRingElements + size_t{2} * size_, std::memory_order_relaxed);
  // §2.7.10: wanted when used.idx moved past used_event since the last look.
  return always || static_cast<uint16_t>(next_used_ - wish - 1) < pushed;
}

uint16_t Queue::published() const noexcept {
  return memory::load_u16(avail_ + kRingIndex, std::memory_order_acquire);
}

bool Queue::enable_notifications() noexcept { return !fault_ && notify_beyond(next_avail_); }

bool Queue::notify_beyond(uint16_t index) noexcept {
  if (event_index_)
    memory::store_u16(used_ + kRingElements + kUsedElementSize * size_, index,
                      std::memory_order_relaxed);
  else
    memory::store_u16(used_, 0, std::memory_order_relaxed);
  // We set our wish, then look at avail.idx; the driver sets avail.idx, then looks at our wish.
  full_fence();
  return published() != index;
}

void Queue::disable_notifications() noexcept {
  // With event indices, not moving avail_event is enough.
  if (!event_index_) memory::store_u16(used_, kUsedNoNotify, std::memory_order_relaxed);
}

}
