// The register file. Its three tables are the whole policy: which status may follow which, which
// registers exist, and which state a write needs.

#include "mvm/virtio/mmio.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mvm::virtio {
namespace {

constexpr uint32_t kMagicValue = 0x7472'6976;  // "virt"
constexpr uint32_t kTransportVersion = 2;
constexpr uint32_t kVendor = 0x006d'766d;  // "mvm"
constexpr uint32_t kNoSharedMemory = 0xffff'ffff;

constexpr uint8_t kStateDriver = kStatusAcknowledge | kStatusDriver;
constexpr uint8_t kStateFeaturesOk = kStateDriver | kStatusFeaturesOk;
constexpr uint8_t kStateDriverOk = kStateFeaturesOk | kStatusDriverOk;

// §3.1.1: the only way from reset to running. FAILED and reset are handled apart.
struct Transition {
  uint8_t from;
  uint8_t to;
};
constexpr Transition kTransitions[] = {
    {0, kStatusAcknowledge},
    {kStatusAcknowledge, kStateDriver},
    {kStateDriver, kStateFeaturesOk},
    {kStateFeaturesOk, kStateDriverOk},
};

bool is_transition(uint8_t from, uint8_t to) noexcept {
  return std::ranges::any_of(kTransitions,
                             [&](const Transition& t) { return t.from == from && t.to == to; });
}

void set_low(memory::GuestAddress& address, uint32_t value) noexcept {
  address.value = (address.value & ~uint64_t{0xffff'ffff}) | value;
}
void set_high(memory::GuestAddress& address, uint32_t value) noexcept {
  address.value = (address.value & 0xffff'ffff) | uint64_t{value} << 32;
}

}

MmioTransport::MmioTransport(const memory::GuestMemory& memory, Device& device, Signals& signals,
                             std::span<std::byte> page)
    : memory_(memory),
      device_(device),
      signals_(signals),
      own_page_(page.empty() ? RegisterPage::kSize : 0),
      page_(page.empty() ? own_page_ : page) {
  const auto sizes = device.queue_sizes();
  registers_.resize(sizes.size());
  queues_.resize(sizes.size());
  for (size_t index = 0; index < sizes.size(); ++index) registers_[index].max_size = sizes[index];
  page_.put(mmio::kMagic, kMagicValue);
  page_.put(mmio::kVersion, kTransportVersion);
  page_.put(mmio::kDeviceId, static_cast<uint32_t>(device.id()));
  page_.put(mmio::kVendorId, kVendor);
  for (const uint64_t offset : {mmio::kSharedMemoryLengthLow, mmio::kSharedMemoryLengthHigh,
                                mmio::kSharedMemoryBaseLow, mmio::kSharedMemoryBaseHigh})
    page_.put(offset, kNoSharedMemory);
  page_.put_config(device_.config());
  reset_registers();
}

void MmioTransport::read(uint64_t offset, std::span<std::byte> data) const noexcept {
  page_.read(offset, data);
}

void MmioTransport::show_selected_features() noexcept {
  page_.put(mmio::kDeviceFeatures,
            device_features_select_ > 1
                ? 0
                : static_cast<uint32_t>(offered().bits() >> (32 * device_features_select_)));
}

void MmioTransport::show_selected_queue() noexcept {
  const bool exists = queue_select_ < registers_.size();
  page_.put(mmio::kQueueSizeMax, exists ? registers_[queue_select_].max_size : 0);
  page_.put(mmio::kQueueReady, exists && registers_[queue_select_].ready ? 1 : 0);
}

void MmioTransport::set_status(uint8_t status) noexcept {
  status_ = status;
  page_.put(mmio::kStatus, status);
}

void MmioTransport::write(uint64_t offset, ByteView data) noexcept {
  if (offset >= mmio::kConfig) {
    // Fields that a driver writes belong to features, so only once those are agreed on (§2.5).
    if ((status_ & kStatusFeaturesOk) == 0) return;
    device_.write_config(offset - mmio::kConfig, data);
    page_.put_config(device_.config());
    return;
  }
  if (data.size() != 4 || offset % 4 != 0) return;
  uint32_t value = 0;
  std::memcpy(&value, data.data(), sizeof value);
  write_register(offset, value);
}

void MmioTransport::write_register(uint64_t offset, uint32_t value) noexcept {
  switch (offset) {
    case mmio::kDeviceFeaturesSelect:
      device_features_select_ = value;
      return show_selected_features();
    case mmio::kDriverFeaturesSelect:
      driver_features_select_ = value;
      return;
    case mmio::kDriverFeatures: {
      if (status_ != kStateDriver || driver_features_select_ > 1) return;
      const unsigned shift = 32 * driver_features_select_;
      const uint64_t kept = driver_features_.bits() & ~(uint64_t{0xffff'ffff} << shift);
      driver_features_ = Features(kept | uint64_t{value} << shift);
      return;
    }
    case mmio::kQueueSelect:
      queue_select_ = value;
      return show_selected_queue();
    case mmio::kQueueNotify:
      if (running() && value < queue_count()) signals_.kick(static_cast<uint16_t>(value));
      return;
    case mmio::kInterruptAck:
      page_.clear_bits(mmio::kInterruptStatus, value);
      return;
    case mmio::kStatus:
      write_status(value);
      return;
    default:
      write_queue(offset, value);
  }
}

// Queue registers: between FEATURES_OK and DRIVER_OK, and but for QueueReady only while not ready.
void MmioTransport::write_queue(uint64_t offset, uint32_t value) noexcept {
  if (status_ != kStateFeaturesOk || queue_select_ >= registers_.size()) return;
  QueueRegisters& queue = registers_[queue_select_];
  if (offset == mmio::kQueueReady) {
    if (value <= 1) queue.ready = value == 1;
    return show_selected_queue();
  }
  if (queue.ready) return;
  switch (offset) {
    case mmio::kQueueSize:
      queue.size = value;
      return;
    case mmio::kQueueDescriptorLow:
      return set_low(queue.descriptor_area, value);
    case mmio::kQueueDescriptorHigh:
      return set_high(queue.descriptor_area, value);
    case mmio::kQueueDriverLow:
      return set_low(queue.driver_area, value);
    case mmio::kQueueDriverHigh:
      return set_high(queue.driver_area, value);
    case mmio::kQueueDeviceLow:
      return set_low(queue.device_area, value);
    case mmio::kQueueDeviceHigh:
      return set_high(queue.device_area, value);
    default:
      return;
  }
}

void MmioTransport::write_status(uint32_t value) noexcept {
  if (value == 0) return reset();
  if (value > 0xff) return;
  // Drivers write back what they read with one bit more, so NEEDS_RESET may come along.
  const auto wanted = static_cast<uint8_t>(value & ~uint32_t{kStatusNeedsReset});
  const auto current = static_cast<uint8_t>(status_ & ~kStatusNeedsReset);
  if (wanted == (current | kStatusFailed)) {
    set_status(status_ | kStatusFailed);  // the driver gave up; only a reset leads out
    return;
  }
  if ((status_ & (kStatusNeedsReset | kStatusFailed)) != 0 || !is_transition(current, wanted))
    return;
  // §3.1.1 step 5: a driver reads the bit back to see whether its choice was accepted.
  if (wanted == kStateFeaturesOk && !features_acceptable()) return;
  set_status(wanted);
  if (wanted == kStateDriverOk) activate();
}

Features MmioTransport::offered() const noexcept {
  return Features(device_.features().bits() | kRingFeatures.bits());
}

bool MmioTransport::features_acceptable() const noexcept {
  return driver_features_.within(offered()) && driver_features_.has(kFeatureVersion1);
}

void MmioTransport::activate() noexcept {
  for (size_t index = 0; index < registers_.size(); ++index) {
    if (!registers_[index].ready) continue;
    auto queue = Queue::activate(memory_, registers_[index], driver_features_);
    if (!queue) {
      for (auto& made : queues_) made.reset();
      return fail(queue.error());
    }
    queues_[index].emplace(*queue);
  }
  device_.activate(queues_, driver_features_);
  settle();
  // Buffers may have been there before: their kicks came too early to count.
  for (uint16_t index = 0; index < queue_count(); ++index)
    if (queues_[index]) signals_.kick(index);
}

Progress MmioTransport::process(uint16_t queue) noexcept {
  if (!running() || queue >= queue_count() || !queues_[queue]) return Progress::Idle;
  const Progress progress = device_.process(queue);
  settle();
  return running() ? progress : Progress::Idle;
}

void MmioTransport::settle() noexcept {
  const Effects effects = device_.take_effects();
  // The configuration is readable before the driver is there, so its generation counts always.
  if (page_.put_config(device_.config()) || effects.config_changed)
    page_.put(mmio::kConfigGeneration, page_.get(mmio::kConfigGeneration) + 1);
  if (!running()) return;
  const uint32_t bits = (effects.used_buffers ? mmio::kInterruptUsedBuffer : 0) |
                        (effects.config_changed ? mmio::kInterruptConfigChange : 0);
  if (bits != 0) interrupt(bits);
  if (effects.fault) fail(*effects.fault);
}

void MmioTransport::fail(QueueFault fault) noexcept {
  fault_ = fault;
  set_status(status_ | kStatusNeedsReset);
  interrupt(mmio::kInterruptConfigChange);  // §2.1.2
}

void MmioTransport::interrupt(uint32_t bits) noexcept {
  signals_.take_acknowledgements();
  page_.set_bits(mmio::kInterruptStatus, bits);
  signals_.raise_interrupt();
}

std::optional<QueueFault> MmioTransport::take_fault() noexcept {
  return std::exchange(fault_, std::nullopt);
}

void MmioTransport::reset() noexcept {
  device_.reset();
  device_.take_effects();
  for (auto& queue : queues_) queue.reset();
  page_.put_config(device_.config());
  reset_registers();
}

void MmioTransport::reset_registers() noexcept {
  set_status(0);
  device_features_select_ = driver_features_select_ = 0;
  driver_features_ = Features();
  queue_select_ = 0;
  page_.put(mmio::kInterruptStatus, 0);
  for (QueueRegisters& queue : registers_) {
    QueueRegisters fresh;
    fresh.max_size = queue.max_size;
    fresh.size = queue.max_size;
    queue = fresh;
  }
  show_selected_features();
  show_selected_queue();
}

}
