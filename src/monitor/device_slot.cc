#include "device_slot.h"

#include <utility>

#include "mvm/sys/io.h"

namespace mvm::monitor {

DeviceSlot::DeviceSlot(const memory::GuestMemory& memory, virtio::Device& device,
                       memory::GuestAddress address, uint32_t gsi, Interrupt interrupt,
                       std::span<std::byte> page, KeptWrites* kept_writes)
    : address_(address),
      gsi_(gsi),
      kept_writes_(kept_writes),
      interrupt_(std::move(interrupt)),
      transport_(memory, device, *this, page) {
  for (size_t i = 0; i < device.queue_sizes().size(); ++i) kicks_.push_back(sys::event_fd());
}

void DeviceSlot::read(uint64_t offset, std::span<std::byte> data) noexcept {
  transport_.read(offset, data);
}

void DeviceSlot::write(uint64_t offset, ByteView data) noexcept {
  if (!virtio::MmioTransport::needs_lock(offset)) return transport_.write(offset, data);
  if (offset == virtio::mmio::kStatus && executor_)
    return executor_([&] { write_locked(offset, data); });
  write_locked(offset, data);
}

void DeviceSlot::write_locked(uint64_t offset, ByteView data) noexcept {
  const std::lock_guard lock(mutex_);
  transport_.write(offset, data);
  // A reset leaves news for whoever holds the device's host side, and that is the thread which
  // serves its queues.
  if (offset == virtio::mmio::kStatus && transport_.status() == 0) kick(0);
}

void DeviceSlot::serve(uint16_t queue) noexcept {
  sys::drain_event(kicks_.at(queue).get());
  if (process(queue) == virtio::Progress::More) kick(queue);
}

virtio::Progress DeviceSlot::process(uint16_t queue) noexcept {
  const std::lock_guard lock(mutex_);
  return transport_.process(queue);
}

std::optional<virtio::QueueFault> DeviceSlot::take_fault() noexcept {
  const std::lock_guard lock(mutex_);
  return transport_.take_fault();
}

void DeviceSlot::take_acknowledgements() noexcept {
  if (kept_writes_ == nullptr) return;
  kept_writes_->take_acknowledgements(address_.value + virtio::mmio::kInterruptAck);
}

void DeviceSlot::raise_interrupt() noexcept { interrupt_(gsi_); }
void DeviceSlot::kick(uint16_t queue) noexcept { sys::signal_event(kicks_.at(queue).get()); }

}
