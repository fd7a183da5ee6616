// Discard and write zeroes: which ranges are carried out, and which are refused.

#include "block_fixture.h"

namespace mvm::virtio {
namespace {

constexpr uint32_t kUnmap = 1;
constexpr Features kAll =
    Features().with(kFlushFeature).with(kDiscardFeature).with(kWriteZeroesFeature);

class BlockDiscardTest : public BlockTest {
 protected:
  void SetUp() override { start(Access::ReadWrite, kAll); }
  void put_range(uint64_t at, uint64_t sector, uint32_t sectors, uint32_t flags) {
    driver().put<uint64_t>(at, sector);
    driver().put<uint32_t>(at + 8, sectors);
    driver().put<uint32_t>(at + 12, flags);
  }
  uint8_t range(uint32_t type, uint64_t sector, uint32_t sectors, uint32_t flags = 0) {
    header(type, 0);
    put_range(kData, sector, sectors, flags);
    const Answer answer = run({{kHeader, 16, false}, {kData, 16, false}, {kStatus, 1, true}});
    EXPECT_EQ(answer.length, 1U);
    return answer.status;
  }
  int changes() const { return disk.discards + disk.zeroes; }
};

TEST_F(BlockDiscardTest, IsOfferedWhereTheDiskCanAndIsWritable) {
  EXPECT_TRUE(device->features().has(kDiscardFeature));
  EXPECT_TRUE(device->features().has(kWriteZeroesFeature));
  const Block read_only({.capacity = 4096, .access = Access::ReadOnly, .discard = true}, disk);
  EXPECT_FALSE(read_only.features().has(kDiscardFeature));
  const Block without({.capacity = 4096, .access = Access::ReadWrite}, disk);
  EXPECT_FALSE(without.features().has(kDiscardFeature));
  EXPECT_FALSE(without.features().has(kWriteZeroesFeature));
}

// §5.2.4, offsets in struct virtio_blk_config.
TEST_F(BlockDiscardTest, ConfigurationSaysTheLimits) {
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, device->config().data() + at, sizeof value);
    return value;
  };

  EXPECT_EQ(word(36), Block::kMaxRangeBytes / 512);
  EXPECT_EQ(word(40), 1U);
  EXPECT_EQ(word(44), 8U);
  EXPECT_EQ(word(48), Block::kMaxRangeBytes / 512);
  EXPECT_EQ(word(52), 1U);
  EXPECT_EQ(device->config()[56], std::byte{1});
}

TEST_F(BlockDiscardTest, DiscardsWhatItIsTold) {
  std::ranges::fill(disk.bytes, std::byte{7});
  EXPECT_EQ(range(kDiscard, 8, 16), kOk);
  EXPECT_EQ(disk.discards, 1);
  EXPECT_EQ(disk.bytes[8 * 512 - 1], std::byte{7});
  EXPECT_EQ(disk.bytes[8 * 512], std::byte{0});
  EXPECT_EQ(disk.bytes[24 * 512 - 1], std::byte{0});
  EXPECT_EQ(disk.bytes[24 * 512], std::byte{7});
}

TEST_F(BlockDiscardTest, WriteZeroesKeepsOrGivesBackTheSpace) {
  EXPECT_EQ(range(kWriteZeroes, 0, 8), kOk);
  EXPECT_EQ(disk.zeroes, 1);
  EXPECT_EQ(range(kWriteZeroes, 0, 8, kUnmap), kOk);
  EXPECT_EQ(disk.zeroes, 1);
  EXPECT_EQ(disk.discards, 1);
}

TEST_F(BlockDiscardTest, RefusesRangesBeyondTheEnd) {
  struct Case {
    uint64_t sector;
    uint32_t sectors;
    uint8_t status;
  };
  const Case cases[] = {
      {0, kSectors, kOk},
      {kSectors - 1, 1, kOk},
      {kSectors, 0, kOk},
      {0, kSectors + 1, kIoError},
      {kSectors, 1, kIoError},
      {kSectors + 1, 0, kIoError},
      {UINT64_MAX, 1, kIoError},
      {UINT64_MAX, UINT32_MAX, kIoError},
      {UINT64_MAX - 7, 8, kIoError},
      {UINT64_MAX / 512 + 1, 8, kIoError},  // times 512 is 0
      {0, UINT32_MAX, kIoError},
  };
  for (const Case& c : cases) {
    for (const uint32_t type : {kDiscard, kWriteZeroes}) {
      const int before = changes();
      EXPECT_EQ(range(type, c.sector, c.sectors), c.status) << type << ' ' << c.sector;
      EXPECT_EQ(changes() - before, c.status == kOk && c.sectors > 0 ? 1 : 0);
    }
  }
}

TEST_F(BlockDiscardTest, RefusesRangesLongerThanItSaid) {
  struct Accepting : BlockEngine {
    int submitted = 0;
    void submit(const BlockOperation&) noexcept override { ++submitted; }
    void drain() noexcept override {}
  } engine;
  Block block({.capacity = uint64_t{1} << 40, .access = Access::ReadWrite, .discard = true},
              engine);
  test::ActiveDevice running(memory, block, kAll);
  auto& queue = running.drivers[0];
  const auto ask = [&](uint32_t sectors) {
    queue.put<uint32_t>(kHeader, kDiscard);
    queue.put<uint64_t>(kData, 0);
    queue.put<uint32_t>(kData + 8, sectors);
    queue.put<uint32_t>(kData + 12, 0);
    queue.add({{kHeader, 16, false}, {kData, 16, false}, {kStatus, 1, true}});
    block.process(0);
  };
  ask(Block::kMaxRangeBytes / 512 + 1);
  EXPECT_EQ(engine.submitted, 0);
  EXPECT_EQ(queue.get<uint8_t>(kStatus), kIoError);
  ask(Block::kMaxRangeBytes / 512);
  EXPECT_EQ(engine.submitted, 1);
}

TEST_F(BlockDiscardTest, RefusesFlagsThatItDoesNotKnow) {
  EXPECT_EQ(range(kDiscard, 0, 8, kUnmap), kUnsupported);  // §5.2.6.2
  for (const uint32_t flags : {2U, 3U, 0x80000000U}) {
    EXPECT_EQ(range(kDiscard, 0, 8, flags), kUnsupported) << flags;
    EXPECT_EQ(range(kWriteZeroes, 0, 8, flags), kUnsupported) << flags;
  }
  EXPECT_EQ(changes(), 0);
}

TEST_F(BlockDiscardTest, RefusesAnythingButOneWholeRange) {
  for (const uint32_t length : {1U, 8U, 15U, 17U, 31U, 32U, 512U}) {
    header(kDiscard, 0);
    for (uint32_t at = 0; at < length; at += 16) put_range(kData + at, 0, 8, 0);
    EXPECT_EQ(run({{kHeader, 16, false}, {kData, length, false}, {kStatus, 1, true}}).status,
              kIoError)
        << length;
  }
  header(kDiscard, 0);
  EXPECT_EQ(run({{kHeader, 16, false}, {kStatus, 1, true}}).status, kIoError);
  EXPECT_EQ(changes(), 0);
}

TEST_F(BlockDiscardTest, ARangeMayBeCutAnywhere) {
  for (uint32_t cut = 1; cut < 32; ++cut) {
    driver().put<uint32_t>(kHeader, kDiscard);
    driver().put<uint8_t>(kStatus, kUntouched);
    put_range(kHeader + 16, 8, 8, 0);
    EXPECT_EQ(
        run({{kHeader, cut, false}, {kHeader + cut, 32 - cut, false}, {kStatus, 1, true}}).status,
        kOk);
  }
  EXPECT_EQ(disk.discards, 31);
}

TEST_F(BlockDiscardTest, WhatWasNotNegotiatedIsUnsupported) {
  start(Access::ReadWrite);
  EXPECT_EQ(range(kDiscard, 0, 8), kUnsupported);
  EXPECT_EQ(range(kWriteZeroes, 0, 8), kUnsupported);
  start(Access::ReadOnly, kAll);  // although it was never offered
  EXPECT_EQ(range(kDiscard, 0, 8), kUnsupported);
  EXPECT_EQ(range(kWriteZeroes, 0, 8), kUnsupported);
  EXPECT_EQ(changes(), 0);
}

TEST_F(BlockDiscardTest, AFailureReachesTheDriver) {
  disk.failing = true;
  EXPECT_EQ(range(kDiscard, 0, 8), kIoError);
  EXPECT_EQ(range(kWriteZeroes, 0, 8), kIoError);
}

}
}
