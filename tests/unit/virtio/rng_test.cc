// The entropy device gives what it is asked for, up to a bound of its own.

#include "mvm/virtio/rng.h"

#include <vector>

#include <gtest/gtest.h>

#include "support/active_device.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using test::Buffer;

constexpr uint64_t kData = 0x40000;

class CountingSource : public EntropySource {
 public:
  bool fill(std::span<std::byte> into) noexcept override {
    if (failing) return false;
    for (std::byte& byte : into) byte = std::byte(++given & 0xff);
    return true;
  }
  uint64_t given = 0;
  bool failing = false;
};

class RngTest : public testing::Test {
 protected:
  GuestMemory memory = GuestMemory::create(1 << 20);
  CountingSource source;
  Rng device{source};
  test::ActiveDevice active{memory, device, {}, 256};
  test::DriverQueue& driver = active.drivers[0];
};

TEST_F(RngTest, FillsEveryWritableByteAndNoOther) {
  driver.add({{kData + 100, 8, false}, {kData, 3, true}, {kData + 10, 5, true}});
  EXPECT_EQ(device.process(0), Progress::Idle);
  EXPECT_EQ(driver.take_used()->length, 8U);
  EXPECT_EQ(driver.get<uint8_t>(kData + 2), 3);
  EXPECT_EQ(driver.get<uint8_t>(kData + 3), 0);
  EXPECT_EQ(driver.get<uint8_t>(kData + 14), 8);
  EXPECT_EQ(driver.get<uint8_t>(kData + 100), 0);
  EXPECT_TRUE(device.take_effects().used_buffers);
}

// 256 descriptors of 512 KiB on the same memory claim 128 MiB.
TEST_F(RngTest, AliasedBuffersDoNotRaiseTheBound) {
  driver.add(std::vector<Buffer>(256, Buffer{kData, 512 << 10, true}));
  EXPECT_EQ(device.process(0), Progress::Idle);
  EXPECT_EQ(driver.take_used()->length, Rng::kMaxRequestBytes);
  EXPECT_EQ(source.given, Rng::kMaxRequestBytes);
}

TEST_F(RngTest, ABufferWithoutRoomGetsNothing) {
  driver.add({{kData, 64, false}});
  device.process(0);
  EXPECT_EQ(driver.take_used()->length, 0U);
}

TEST_F(RngTest, CountsOnlyWhatTheSourceGave) {
  source.failing = true;
  driver.add({{kData, 64, true}});
  device.process(0);
  EXPECT_EQ(driver.take_used()->length, 0U);
}

TEST_F(RngTest, OneTurnIsBounded) {
  for (uint32_t i = 0; i < Rng::kRequestsPerTurn + 1; ++i) driver.add({{kData, 1, true}});
  EXPECT_EQ(device.process(0), Progress::More);
  EXPECT_EQ(source.given, Rng::kRequestsPerTurn);
  EXPECT_EQ(device.process(0), Progress::Idle);
}

TEST_F(RngTest, IsIdleAfterReset) {
  driver.add({{kData, 1, true}});
  device.reset();
  EXPECT_EQ(device.process(0), Progress::Idle);
  EXPECT_EQ(source.given, 0U);
}

}
}
