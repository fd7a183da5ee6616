// A whole driver, from reset to interrupt, and a driver that runs at the same time as the device.

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/virtio/block.h"
#include "mvm/virtio/mmio.h"

#include "support/driver_queue.h"
#include "support/memory_disk.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using test::DriverQueue;

constexpr uint64_t kMiB = 1 << 20;

class CountingSignals : public Signals {
 public:
  void raise_interrupt() noexcept override { ++interrupts; }
  void kick(uint16_t queue) noexcept override { kicks.push_back(queue); }
  int interrupts = 0;
  std::vector<uint16_t> kicks;
};

// What a driver does with a disk, over registers and rings only, twice with a reset between.
TEST(Driver, ReadsADiskThroughTheTransportAndAgainAfterReset) {
  const auto memory = GuestMemory::create(kMiB);
  test::MemoryDisk disk(64 * kSectorSize);
  for (size_t i = 0; i < disk.bytes.size(); ++i) disk.bytes[i] = std::byte(i / kSectorSize);
  Block block({.capacity = disk.bytes.size(), .access = Access::ReadOnly}, disk);
  CountingSignals signals;
  MmioTransport transport(memory, block, signals);
  const auto get = [&](uint64_t offset) {
    uint32_t value = 0;
    transport.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  };
  const auto set = [&](uint64_t offset, uint32_t value) {
    transport.write(offset, std::as_bytes(std::span(&value, 1)));
  };
  for (uint32_t round = 1; round <= 2; ++round) {
    signals = CountingSignals();
    DriverQueue driver(memory, 0x10000, 16);
    set(mmio::kStatus, 0);
    set(mmio::kStatus, 1);
    set(mmio::kStatus, 3);
    for (uint32_t word = 0; word < 2; ++word) {
      set(mmio::kDeviceFeaturesSelect, word);
      set(mmio::kDriverFeaturesSelect, word);
      set(mmio::kDriverFeatures, get(mmio::kDeviceFeatures));
    }
    set(mmio::kStatus, 11);
    ASSERT_EQ(get(mmio::kStatus), 11U) << "everything offered may be accepted";
    ASSERT_EQ(get(mmio::kConfig), 64U) << "capacity";
    const QueueRegisters registers = driver.registers();
    ASSERT_EQ(get(mmio::kQueueReady), 0U);
    ASSERT_EQ(get(mmio::kQueueSizeMax), 256U);
    set(mmio::kQueueSize, 16);
    set(mmio::kQueueDescriptorLow, static_cast<uint32_t>(registers.descriptor_area.value));
    set(mmio::kQueueDriverLow, static_cast<uint32_t>(registers.driver_area.value));
    set(mmio::kQueueDeviceLow, static_cast<uint32_t>(registers.device_area.value));
    set(mmio::kQueueReady, 1);
    set(mmio::kStatus, 15);
    ASSERT_EQ(get(mmio::kStatus), 15U);
    ASSERT_EQ(signals.kicks.size(), 1U) << "at activation";

    for (uint32_t sector = 0; sector < 64; ++sector) {
      driver.put<uint32_t>(0x40000, 0);
      driver.put<uint64_t>(0x40008, sector);
      driver.put<uint8_t>(0x42000, 0xee);
      driver.add({{0x40000, 16, false}, {0x41000, 512, true}, {0x42000, 1, true}});
      set(mmio::kQueueNotify, 0);
      ASSERT_EQ(signals.kicks.size(), sector + 2U);
      driver.set_used_event(driver.used_index());
      ASSERT_EQ(transport.process(0), Progress::Idle);
      disk.finish_all(block);
      transport.settle();
      ASSERT_EQ(get(mmio::kInterruptStatus), mmio::kInterruptUsedBuffer);
      ASSERT_EQ(signals.interrupts, static_cast<int>(sector) + 1);
      set(mmio::kInterruptAck, 1);
      ASSERT_EQ(get(mmio::kInterruptStatus), 0U);
      const auto used = driver.take_used();
      ASSERT_TRUE(used);
      ASSERT_EQ(used->length, 513U);
      ASSERT_EQ(driver.get<uint8_t>(0x42000), 0);
      ASSERT_EQ(driver.get<uint8_t>(0x41000 + 511), sector);
    }
  }
}

// Driver and device on two threads, each asleep until the other wakes it, and each waking the other
// only when the event index says so. One wake-up lost at any of the races and the test never ends
// (its time limit ends it); one too early and the counts differ.
void race(Features features) {
  constexpr uint32_t kChains = 20'000;
  constexpr uint16_t kSize = 4;
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue layout(memory, 0x10000, kSize);
  for (uint16_t i = 0; i < kSize; ++i) layout.set(i, {0x40000 + 64U * i, 64, kDescriptorWrite, 0});
  auto active = Queue::activate(memory, layout.registers(), features);
  ASSERT_TRUE(active);
  Queue queue = std::move(*active);
  const bool event_index = features.has(kFeatureEventIndex);
  std::byte* avail = memory.slice({layout.avail()}, 64)->data();
  std::byte* used = memory.slice({layout.used()}, 64)->data();

  std::atomic<uint32_t> kicks{0}, interrupts{0};
  std::thread device([&] {
    Chain chain;
    uint32_t served = 0;
    while (served < kChains) {
      const uint32_t seen = kicks.load();
      queue.disable_notifications();
      do {
        for (;;) {
          const auto popped = queue.pop(chain);
          ASSERT_TRUE(popped);
          if (!*popped) break;
          queue.push(chain.head(), ++served & 63);
        }
        if (queue.should_notify()) {
          ++interrupts;
          interrupts.notify_one();
        }
        // Between the last look and the wish is where a chain can slip in: make it likely.
        for (uint32_t spin = served % 7 * 200; spin > 0; --spin) asm volatile("");
      } while (queue.enable_notifications());
      if (served < kChains) kicks.wait(seen);
    }
  });

  // Single 16-bit accesses with the fences that §2.7.13 asks of a driver.
  uint16_t published = 0, reaped = 0;
  uint32_t done = 0, sent = 0;
  while (done < kChains) {
    const uint16_t before = published;
    while (sent < kChains && static_cast<uint16_t>(published - reaped) < kSize) {
      memory::store_u16(avail + 4 + 2 * (published % kSize),
                        static_cast<uint16_t>(published % kSize), std::memory_order_relaxed);
      ++published;
      ++sent;
    }
    memory::store_u16(avail + 2, published, std::memory_order_release);
    test::full_fence();
    const uint16_t event = memory::load_u16(used + 4 + 8 * kSize, std::memory_order_relaxed);
    const bool wanted =
        event_index ? static_cast<uint16_t>(published - event - 1) <
                          static_cast<uint16_t>(published - before)
                    : (memory::load_u16(used, std::memory_order_relaxed) & kUsedNoNotify) == 0;
    if (published != before && wanted) {
      ++kicks;
      kicks.notify_one();
    }
    const uint32_t seen = interrupts.load();
    // Ask for an interrupt at the next used buffer, then look once more.
    memory::store_u16(avail + 4 + 2 * kSize, reaped, std::memory_order_relaxed);
    test::full_fence();
    const uint16_t now = memory::load_u16(used + 2, std::memory_order_acquire);
    if (now == reaped) {
      interrupts.wait(seen);
      continue;
    }
    for (; reaped != now; ++reaped) {
      uint32_t length = 0;
      std::memcpy(&length, used + 4 + 8 * (reaped % kSize) + 4, sizeof length);
      ++done;
      ASSERT_EQ(length, done & 63) << "used elements in order";
    }
  }
  device.join();
  EXPECT_EQ(done, kChains);
}

TEST(Driver, NoWakeUpIsLostWithEventIndex) { race(kRingFeatures); }
TEST(Driver, NoWakeUpIsLostWithFlags) { race(Features().with(kFeatureVersion1)); }

}
}
