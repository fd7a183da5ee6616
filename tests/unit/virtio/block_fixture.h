#pragma once
// A disk of 64 sectors with its queue, and requests as a driver writes them.

#include <initializer_list>
#include <optional>

#include <gtest/gtest.h>

#include "mvm/virtio/block.h"

#include "support/active_device.h"
#include "support/memory_disk.h"

namespace mvm::virtio {
using memory::GuestMemory;
using test::Buffer;

inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kHeader = 0x40000;
inline constexpr uint64_t kStatus = 0x41000;
inline constexpr uint64_t kData = 0x50000;
inline constexpr size_t kSectors = 64;
inline constexpr uint32_t kIn = 0, kOut = 1, kFlush = 4, kGetId = 8, kDiscard = 11,
                          kWriteZeroes = 13;
inline constexpr uint8_t kOk = 0, kIoError = 1, kUnsupported = 2, kUntouched = 0xee;
inline constexpr unsigned kFlushFeature = 9, kDiscardFeature = 13, kWriteZeroesFeature = 14;

struct Answer {
  uint8_t status;
  uint32_t length;
};

class BlockTest : public testing::Test {
 protected:
  void SetUp() override { start(Access::ReadWrite); }
  void start(Access access, Features extra = Features().with(kFlushFeature), uint16_t size = 16) {
    active.reset();
    device.emplace(BlockSettings{.capacity = kSectors * kSectorSize + 100,
                                 .block_size = 512,
                                 .access = access,
                                 .discard = true,
                                 .serial = "mvm-disk-0",
                                 .limits = limits,
                                 .now = [this] { return now; }},
                   disk);
    active.emplace(memory, *device, extra, size);
  }
  void header(uint32_t type, uint64_t sector) {
    auto& d = driver();
    d.put<uint32_t>(kHeader, type);
    d.put<uint32_t>(kHeader + 4, 0);
    d.put<uint64_t>(kHeader + 8, sector);
    d.put<uint8_t>(kStatus, kUntouched);
  }
  Answer run(std::initializer_list<Buffer> buffers) {
    driver().add(buffers);
    EXPECT_EQ(device->process(0), Progress::Idle);
    disk.finish_all(*device);
    const auto used = driver().take_used();
    EXPECT_TRUE(used);
    EXPECT_FALSE(device->take_effects().fault);
    return {driver().get<uint8_t>(kStatus), used ? used->length : 0};
  }
  Answer request(uint32_t type, uint64_t sector, uint32_t length) {
    header(type, sector);
    if (length == 0) return run({{kHeader, 16, false}, {kStatus, 1, true}});
    return run({{kHeader, 16, false}, {kData, length, type != kOut}, {kStatus, 1, true}});
  }
  test::DriverQueue& driver() { return active->drivers[0]; }
  void fill_data(uint8_t seed, size_t length) {
    for (size_t i = 0; i < length; ++i)
      driver().put<uint8_t>(kData + i, static_cast<uint8_t>(seed + i));
  }

  GuestMemory memory = GuestMemory::create(kMiB);
  test::MemoryDisk disk{kSectors * kSectorSize};
  BlockLimits limits;
  RateLimit::Time now{std::chrono::hours(1)};
  std::optional<Block> device;
  std::optional<test::ActiveDevice> active;
};

}
