// A disk with its thread, as a vCPU thread and a driver meet it: registers, kicks and interrupts.

#include "../../../src/monitor/disk.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include <fcntl.h>
#include <poll.h>

#include <gtest/gtest.h>

#include "mvm/memory/guest_memory.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "interrupt_line.h"
#include "support/driver_queue.h"

namespace mvm::monitor {
namespace {

namespace mmio = virtio::mmio;

constexpr uint64_t kDiskBytes = 4 << 20;
constexpr uint64_t kRings = 0x10000;
constexpr uint64_t kRequests = 0x40000;  // 32 bytes each: header, status
constexpr uint64_t kData = 0x100000;
constexpr uint32_t kPiece = 32768;
constexpr uint16_t kDepth = 16;

class DiskTest : public testing::Test {
 protected:
  void SetUp() override {
    Bytes content(kDiskBytes);
    for (size_t i = 0; i < content.size(); ++i) content[i] = std::byte(i / kPiece + 1);
    sys::write_file_atomic(dir.path() + "/disk", content);
    make({});
  }
  void make(virtio::BlockLimits limits) {
    disk.emplace(sys::open_file(dir.path() + "/disk", O_RDWR),
                 virtio::BlockSettings{.access = virtio::Access::ReadWrite, .limits = limits});
    slot.emplace(memory, disk->device(), memory::GuestAddress{0}, 5, interrupt.raise());
    disk->attach(*slot);
    const ThreadStart start{[] {}, [](const std::string& why) { FAIL() << why; }};
    disk->start(start, start);
  }
  // The threads first: they use the slot.
  void TearDown() override { disk.reset(); }

  void set(uint64_t offset, uint64_t value) {
    const auto word = static_cast<uint32_t>(value);
    slot->write(offset, std::as_bytes(std::span(&word, 1)));
  }
  uint32_t get(uint64_t offset) {
    uint32_t word = 0;
    slot->read(offset, std::as_writable_bytes(std::span(&word, 1)));
    return word;
  }
  void activate() {
    driver.emplace(memory, kRings, 64);
    seen = 0;
    set(mmio::kStatus, 0);
    set(mmio::kStatus, 1);
    set(mmio::kStatus, 3);
    for (uint32_t word = 0; word < 2; ++word) {
      set(mmio::kDeviceFeaturesSelect, word);
      set(mmio::kDriverFeaturesSelect, word);
      set(mmio::kDriverFeatures, get(mmio::kDeviceFeatures));
    }
    set(mmio::kStatus, 11);
    const auto registers = driver->registers();
    set(mmio::kQueueSize, 64);
    set(mmio::kQueueDescriptorLow, registers.descriptor_area.value);
    set(mmio::kQueueDriverLow, registers.driver_area.value);
    set(mmio::kQueueDeviceLow, registers.device_area.value);
    set(mmio::kQueueReady, 1);
    set(mmio::kStatus, 15);
    ASSERT_EQ(get(mmio::kStatus), 15U);
  }
  void ask(uint32_t number, uint32_t type, uint64_t sector, uint32_t length) {
    const uint64_t at = kRequests + 32 * number;
    driver->put<uint32_t>(at, type);
    driver->put<uint64_t>(at + 8, sector);
    driver->put<uint8_t>(at + 16, 0xee);
    driver->add(
        {{at, 16, false}, {kData + number * kPiece, length, type == 0}, {at + 16, 1, true}});
  }
  void ask_for_all() {
    for (uint32_t number = 0; number < kDepth; ++number)
      ask(number, 0, number * kPiece / virtio::kSectorSize, kPiece);
  }
  void kick() { sys::signal_event(slot->kick_fds().front().get()); }
  // Until so many answers have come, woken by interrupts alone.
  void await(size_t count) {
    const auto take = [&] {
      while (count > 0 && driver->take_used()) {
        ++seen;
        --count;
      }
      return count == 0;
    };
    while (!take()) {
      driver->set_used_event(seen);
      test::full_fence();
      if (take()) return;
      pollfd entry{interrupt.fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 20'000), 1) << "no interrupt";
      sys::drain_event(interrupt.fd());
    }
  }
  uint8_t status(uint32_t number) { return driver->get<uint8_t>(kRequests + 32 * number + 16); }
  bool holds(uint32_t number, uint8_t value) {
    const auto data = *memory.slice({kData + number * kPiece}, kPiece);
    return std::ranges::all_of(data, [&](std::byte byte) { return byte == std::byte{value}; });
  }

  const sys::TempDir dir;
  memory::GuestMemory memory = memory::GuestMemory::create(4 << 20);
  std::optional<Disk> disk;
  test::InterruptLine interrupt;
  std::optional<DeviceSlot> slot;
  std::optional<test::DriverQueue> driver;
  uint16_t seen = 0;  // used elements
};

TEST_F(DiskTest, ServesManyRequestsAtATime) {
  activate();
  ask_for_all();
  kick();
  await(kDepth);
  for (uint32_t number = 0; number < kDepth; ++number) {
    EXPECT_EQ(status(number), 0);
    EXPECT_TRUE(holds(number, static_cast<uint8_t>(number + 1))) << number;
  }
}

TEST_F(DiskTest, FindsItsSizeAndOffersHoles) {
  activate();
  EXPECT_EQ(get(mmio::kConfig), kDiskBytes / virtio::kSectorSize);
  const sys::Fd file = sys::open_file(dir.path() + "/disk", O_RDWR);
  EXPECT_EQ(disk->device().features().has(13), can_make_holes(file.get()));
}

TEST_F(DiskTest, AfterAResetWithRequestsUnderWayNoMemoryChanges) {
  for (int round = 0; round < 30; ++round) {
    activate();
    ask_for_all();
    kick();
    if (round % 3 == 1) await(1);
    set(mmio::kStatus, 0);
    // From here on the memory is the driver's alone.
    EXPECT_EQ(get(mmio::kStatus), 0U);
    for (uint32_t number = 0; number < kDepth; ++number)
      std::ranges::fill(*memory.slice({kData + number * kPiece}, kPiece), std::byte{0xaa});
    activate();  // whatever was still to come would have come by the end of this exchange
    ask(40, 0, 0, 512);
    kick();
    await(1);
    for (uint32_t number = 0; number < kDepth; ++number) ASSERT_TRUE(holds(number, 0xaa)) << round;
    set(mmio::kStatus, 0);
  }
}

TEST_F(DiskTest, ALimitDelaysRequestsAndLosesNone) {
  disk.reset();
  slot.reset();
  // So much that the wait is short: what is tested is that the thread wakes by itself.
  make({.operations_per_second = 400});
  activate();
  // More than a second's worth, so that some must wait; each with one kick and no other wake-up.
  for (int batch = 0; batch < 30; ++batch) {
    for (uint32_t number = 0; number < kDepth; ++number) ask(number, 0, 0, 512);
    kick();
    await(kDepth);
  }
}

}
}
