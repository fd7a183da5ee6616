// Register accesses of every width, offset and order against the transport with a console behind
// it, by a driver that mostly knows the way.

#include <vector>

#include "mvm/virtio/console.h"
#include "mvm/virtio/mmio.h"

#include "input.h"
#include "support/driver_queue.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kRing = 0x10000;

class NullSink : public ConsoleSink {
 public:
  void write(ByteView data) noexcept override {
    for (const std::byte byte : data) sum += std::to_integer<unsigned>(byte);
  }
  unsigned sum = 0;
};

class CountingSignals : public Signals {
 public:
  void raise_interrupt() noexcept override { ++interrupts; }
  void kick(uint16_t queue) noexcept override { MVM_ASSERT(queue < 2); }
  int interrupts = 0;
};

constexpr uint64_t kRegisters[] = {
    mmio::kDeviceFeaturesSelect, mmio::kDriverFeatures,      mmio::kDriverFeaturesSelect,
    mmio::kQueueSelect,          mmio::kQueueSize,           mmio::kQueueReady,
    mmio::kQueueNotify,          mmio::kInterruptAck,        mmio::kStatus,
    mmio::kQueueDescriptorLow,   mmio::kQueueDescriptorHigh, mmio::kQueueDriverLow,
    mmio::kQueueDriverHigh,      mmio::kQueueDeviceLow,      mmio::kQueueDeviceHigh,
    mmio::kSharedMemorySelect,   mmio::kQueueReset,          mmio::kConfig};

class Fuzzed {
 public:
  explicit Fuzzed(fuzz::Input& in) : in_(in) {
    for (uint64_t i = 0; i < 2; ++i) drivers_.emplace_back(memory(), kRing + i * 0x4000, 16);
  }
  void run() {
    for (int steps = 0; steps < 256 && !in_.empty(); ++steps) step();
  }

 private:
  static const memory::GuestMemory& memory() {
    static const auto memory = memory::GuestMemory::create(1 << 20);
    return memory;
  }
  void set(uint64_t offset, uint32_t value) {
    if (in_.rarely(16)) value = in_.u32();
    transport_.write(offset, std::as_bytes(std::span(&value, 1)));
  }
  uint32_t get(uint64_t offset) {
    uint32_t value = 0;
    transport_.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void set_up_queue(uint32_t index) {
    const QueueRegisters registers = drivers_[index].registers();
    set(mmio::kQueueSelect, index);
    set(mmio::kQueueSize, registers.size);
    set(mmio::kQueueDescriptorLow, static_cast<uint32_t>(registers.descriptor_area.value));
    set(mmio::kQueueDriverLow, static_cast<uint32_t>(registers.driver_area.value));
    set(mmio::kQueueDeviceLow, static_cast<uint32_t>(registers.device_area.value));
    set(mmio::kQueueReady, 1);
  }
  void bring_up() {
    set(mmio::kStatus, 0);
    set(mmio::kStatus, 1);
    set(mmio::kStatus, 3);
    set(mmio::kDriverFeaturesSelect, 0);
    set(mmio::kDriverFeatures, static_cast<uint32_t>(kRingFeatures.bits()) | 1);
    set(mmio::kDriverFeaturesSelect, 1);
    set(mmio::kDriverFeatures, 1);
    set(mmio::kStatus, 11);
    set_up_queue(0);
    set_up_queue(1);
    set(mmio::kStatus, 15);
  }
  void step() {
    switch (in_.below(8)) {
      case 0:
        drivers_ = {};
        for (uint64_t i = 0; i < 2; ++i) drivers_.emplace_back(memory(), kRing + i * 0x4000, 16);
        bring_up();
        break;
      case 1:
        set(kRegisters[in_.below(std::size(kRegisters))], in_.u32());
        break;
      case 2: {
        std::array<std::byte, 8> bytes{};
        const size_t width = size_t{1} << in_.below(4);
        const uint64_t offset = in_.below(0x200);
        if (in_.rarely(2))
          transport_.write(offset, std::span(bytes).first(width));
        else
          transport_.read(offset, std::span(bytes).first(width));
        break;
      }
      case 3: {
        test::DriverQueue& driver = drivers_[in_.below(2)];
        if (driver.free_descriptors() > 0)
          driver.add({{0x40000U + in_.u16(), in_.below(256), in_.rarely(2)}});
        if (in_.rarely(16)) driver.publish(in_.u16());
        break;
      }
      case 4:
      case 5:
        transport_.process(static_cast<uint16_t>(in_.below(3)));
        break;
      case 6:
        console_.input(std::as_bytes(in_.bytes(in_.u8())));
        if (in_.rarely(4)) console_.resize(in_.u16(), in_.u16());
        transport_.settle();
        break;
      default:
        if (get(mmio::kInterruptStatus) != 0) MVM_ASSERT(signals_.interrupts > 0);
        transport_.take_fault();
    }
    const uint32_t status = get(mmio::kStatus);
    MVM_ASSERT(status == transport_.status());
    // Bits come in order, whatever else is set.
    const uint32_t bits = status & 15U;
    MVM_ASSERT(bits == 0 || bits == 1 || bits == 3 || bits == 11 || bits == 15);
    MVM_ASSERT(transport_.running() == (status == 15));
    if (bits >= 11) MVM_ASSERT(transport_.negotiated().has(kFeatureVersion1));
  }

  fuzz::Input& in_;
  NullSink sink_;
  CountingSignals signals_;
  Console console_{sink_};
  MmioTransport transport_{memory(), console_, signals_};
  std::vector<test::DriverQueue> drivers_;
};

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Fuzzed(in).run();
  return 0;
}
