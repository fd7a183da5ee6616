// The disk: what each request does, and what it refuses to do.

#include <algorithm>
#include <numeric>
#include <string>

#include "mvm/base/error.h"

#include "block_fixture.h"

namespace mvm::virtio {
namespace {

TEST_F(BlockTest, ReadsBackWhatWasWritten) {
  fill_data(7, 1024);
  EXPECT_EQ(request(kOut, 3, 1024).status, kOk);
  fill_data(0, 1024);
  const Answer answer = request(kIn, 3, 1024);
  EXPECT_EQ(answer.status, kOk);
  EXPECT_EQ(answer.length, 1025U) << "data and status";
  for (size_t i = 0; i < 1024; ++i)
    ASSERT_EQ(driver().get<uint8_t>(kData + i), static_cast<uint8_t>(7 + i));
}

TEST_F(BlockTest, UsedLengthOfAWriteIsTheStatusByteOnly) {
  EXPECT_EQ(request(kOut, 0, 512).length, 1U);
}

// Header, data and status in one descriptor a byte, in two halves, and with the status byte glued
// to the data.
TEST_F(BlockTest, TakesAnyDescriptorShape) {
  start(Access::ReadWrite);
  for (size_t i = 0; i < 512; ++i) disk.bytes[512 + i] = std::byte(i * 3);
  for (const uint32_t cut : {1U, 3U, 8U, 15U}) {
    header(kIn, 1);
    fill_data(0, 513);
    const Answer answer = run({{kHeader, cut, false},
                               {kHeader + cut, 16 - cut, false},
                               {kData, 511, true},
                               {kData + 511, 2, true}});
    EXPECT_EQ(answer.length, 513U);
    for (size_t i = 0; i < 512; ++i)
      ASSERT_EQ(driver().get<uint8_t>(kData + i), static_cast<uint8_t>(i * 3));
    EXPECT_EQ(driver().get<uint8_t>(kData + 512), kOk);
  }
  // A write whose header and data share a descriptor.
  header(kOut, 2);
  for (size_t i = 0; i < 512; ++i) driver().put<uint8_t>(kHeader + 16 + i, 0x5a);
  EXPECT_EQ(run({{kHeader, 16 + 512, false}, {kStatus, 1, true}}).status, kOk);
  EXPECT_TRUE(std::all_of(disk.bytes.begin() + 1024, disk.bytes.begin() + 1536,
                          [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_F(BlockTest, RefusesWhatIsNotWholeSectorsWithinTheCapacity) {
  struct Case {
    uint64_t sector;
    uint32_t length;
    uint8_t status;
  };
  const Case cases[] = {
      {0, 512, kOk},
      {kSectors - 1, 512, kOk},
      {kSectors, 0, kOk},
      {kSectors, 512, kIoError},  // although the file has 100 bytes more
      {kSectors - 1, 1024, kIoError},
      {kSectors + 1, 0, kIoError},
      {0, 511, kIoError},
      {0, 513, kIoError},
      {0, 1, kIoError},
      {UINT64_MAX, 512, kIoError},
      {UINT64_MAX / 512, 512, kIoError},
      {UINT64_MAX / 512 + 1, 512, kIoError},  // times 512 is 0
      {(UINT64_MAX / 512 + 1) - 1, 1024, kIoError},
      {0, kSectors * 512, kOk},
      {0, kSectors * 512 + 512, kIoError},
  };
  for (const Case& c : cases) {
    for (const uint32_t type : {kIn, kOut}) {
      const int before = disk.reads + disk.writes;
      EXPECT_EQ(request(type, c.sector, c.length).status, c.status)
          << type << ' ' << c.sector << ' ' << c.length;
      EXPECT_EQ(disk.reads + disk.writes - before, c.status == kOk && c.length > 0 ? 1 : 0);
    }
  }
}

TEST_F(BlockTest, ManyDescriptorsCannotSumPastTheEnd) {
  header(kOut, kSectors - 2);
  EXPECT_EQ(run({{kHeader, 16, false},
                 {kData, 512, false},
                 {kData, 512, false},
                 {kData, 512, false},
                 {kStatus, 1, true}})
                .status,
            kIoError);
  EXPECT_EQ(disk.writes, 0);
}

TEST_F(BlockTest, LengthsThatOnlyTogetherAreWholeSectorsAreFine) {
  header(kOut, 0);
  fill_data(1, 1024);
  EXPECT_EQ(
      run({{kHeader, 16, false}, {kData, 1, false}, {kData + 1, 1023, false}, {kStatus, 1, true}})
          .status,
      kOk);
  EXPECT_EQ(disk.bytes[1023], std::byte{1024 % 256});
}

TEST_F(BlockTest, ReadOnlyIsEnforcedWhateverTheDriverNegotiated) {
  start(Access::ReadOnly, Features().with(kFlushFeature));  // without VIRTIO_BLK_F_RO
  EXPECT_TRUE(device->features().has(5));
  fill_data(9, 512);
  EXPECT_EQ(request(kOut, 0, 512).status, kIoError);
  EXPECT_EQ(disk.writes, 0);
  EXPECT_EQ(request(kIn, 0, 512).status, kOk);
}

TEST_F(BlockTest, FlushReachesTheStorageAndItsFailureTheDriver) {
  EXPECT_EQ(request(kFlush, 0, 0).status, kOk);
  EXPECT_EQ(disk.flushes, 1);
  disk.failing = true;
  EXPECT_EQ(request(kFlush, 0, 0).status, kIoError);
  EXPECT_EQ(request(kOut, 0, 512).status, kIoError);
  const Answer answer = request(kIn, 0, 512);
  EXPECT_EQ(answer.status, kIoError);
  EXPECT_EQ(answer.length, 0U) << "the data before the status byte was not written";
}

TEST_F(BlockTest, WritesAreDurableAtOnceWithoutTheFlushFeature) {
  EXPECT_EQ(request(kOut, 0, 512).status, kOk);
  EXPECT_EQ(disk.flushes, 0);
  start(Access::ReadWrite, Features());
  EXPECT_EQ(request(kOut, 0, 512).status, kOk);
  EXPECT_EQ(disk.flushes, 1);
}

TEST_F(BlockTest, GivesItsSerial) {
  header(kGetId, 0);
  const Answer answer = run({{kHeader, 16, false}, {kData, 20, true}, {kStatus, 1, true}});
  EXPECT_EQ(answer.status, kOk);
  EXPECT_EQ(answer.length, 21U);
  std::string serial;
  for (size_t i = 0; i < 20; ++i) serial += driver().get<char>(kData + i);
  EXPECT_EQ(serial, std::string("mvm-disk-0") + std::string(10, '\0'));
  header(kGetId, 0);
  EXPECT_EQ(run({{kHeader, 16, false}, {kData, 19, true}, {kStatus, 1, true}}).status, kIoError);
}

TEST_F(BlockTest, AnythingElseIsUnsupported) {
  for (const uint32_t type : {2U, 3U, 5U, 7U, 9U, 10U, 12U, 14U, 16U, 0x80000000U, 0xffffffffU}) {
    EXPECT_EQ(request(type, 0, 512).status, kUnsupported) << type;
  }
  EXPECT_EQ(disk.reads + disk.writes + disk.flushes, 0);
}

TEST_F(BlockTest, AHeaderThatIsTooShortIsAnError) {
  for (uint32_t length = 1; length < 16; ++length) {
    header(kIn, 0);
    EXPECT_EQ(run({{kHeader, length, false}, {kStatus, 1, true}}).status, kIoError);
  }
  header(kIn, 0);
  EXPECT_EQ(run({{kData, 512, true}, {kStatus, 1, true}}).status, kIoError);
}

TEST_F(BlockTest, WithoutAStatusByteNothingIsDone) {
  header(kOut, 0);
  const Answer answer = run({{kHeader, 16, false}, {kData, 512, false}});
  EXPECT_EQ(answer.length, 0U);
  EXPECT_EQ(disk.writes, 0);
}

TEST_F(BlockTest, AnImageHeaderInTheFirstSectorStaysData) {
  const std::string qcow = "QFI\xfb\0\0\0\3";
  for (size_t i = 0; i < 512; ++i)
    driver().put<char>(kData + i, i < qcow.size() ? qcow[i] : '\x11');
  ASSERT_EQ(request(kOut, 0, 512).status, kOk);
  start(Access::ReadWrite);  // the next boot
  fill_data(0, 512);
  ASSERT_EQ(request(kIn, 0, 512).status, kOk);
  for (size_t i = 0; i < 512; ++i)
    ASSERT_EQ(driver().get<char>(kData + i), i < qcow.size() ? qcow[i] : '\x11');
  uint64_t capacity = 0;
  std::memcpy(&capacity, device->config().data(), sizeof capacity);
  EXPECT_EQ(capacity, kSectors);
}

TEST_F(BlockTest, ARequestBeyondTheLimitFails) {
  constexpr uint32_t kSegment = 32 << 20;
  struct Counting : BlockEngine {
    uint64_t bytes = 0;
    uint16_t tag = 0;
    void submit(const BlockOperation& operation) noexcept override {
      for (const iovec& segment : operation.segments) bytes += segment.iov_len;
      tag = operation.tag;
    }
    void drain() noexcept override {}
  } counting;
  Block block({.capacity = uint64_t{4} << 30, .access = Access::ReadWrite}, counting);
  const auto big = GuestMemory::create(64 << 20);
  test::ActiveDevice running(big, block, Features().with(kFlushFeature), 64);
  auto& queue = running.drivers[0];
  const auto ask = [&](uint64_t length) {
    queue.put<uint32_t>(kHeader, kIn);
    queue.put<uint64_t>(kHeader + 8, 0);
    // The same memory over and over: nothing forbids it.
    std::vector<Buffer> chain{{kHeader, 16, false}};
    for (uint64_t left = length; left > 0; left -= std::min<uint64_t>(left, kSegment))
      chain.push_back({kMiB, static_cast<uint32_t>(std::min<uint64_t>(left, kSegment)), true});
    chain.push_back({kStatus, 1, true});
    queue.add(chain);
    block.process(0);
    if (block.in_flight() > 0) block.complete(counting.tag, BlockResult::Ok);
    EXPECT_TRUE(queue.take_used());
    return queue.get<uint8_t>(kStatus);
  };
  EXPECT_EQ(ask(Block::kMaxRequestBytes), kOk);
  EXPECT_EQ(counting.bytes, Block::kMaxRequestBytes);
  EXPECT_EQ(ask(Block::kMaxRequestBytes + 512), kIoError);
  EXPECT_EQ(counting.bytes, Block::kMaxRequestBytes);
}

TEST_F(BlockTest, OneTurnIsBounded) {
  start(Access::ReadWrite, Features().with(kFlushFeature), 256);
  header(kFlush, 0);
  for (int i = 0; i < 70; ++i) driver().add({{kHeader, 16, false}, {kStatus, 1, true}});
  EXPECT_EQ(device->process(0), Progress::More);
  EXPECT_EQ(disk.waiting.size(), Block::kRequestsPerTurn);
  EXPECT_EQ(device->process(0), Progress::Idle);
  EXPECT_EQ(disk.waiting.size(), 70U);
}

TEST_F(BlockTest, AFaultIsReportedAndTheRequestsBeforeItAreDone) {
  header(kFlush, 0);
  driver().add({{kHeader, 16, false}, {kStatus, 1, true}});
  driver().publish(99);
  device->process(0);
  disk.finish_all(*device);
  const Effects effects = device->take_effects();
  EXPECT_EQ(effects.fault, QueueFault::HeadOutOfRange);
  EXPECT_TRUE(effects.used_buffers);
  EXPECT_EQ(disk.flushes, 1);
}

TEST_F(BlockTest, BlockSizesAreChecked) {
  for (const uint32_t size : {0U, 1U, 256U, 513U, 768U, 8192U})
    EXPECT_THROW(Block({.capacity = 4096, .block_size = size}, disk), Error) << size;
  for (const uint32_t size : {512U, 1024U, 2048U, 4096U})
    EXPECT_NO_THROW(Block({.capacity = 4096, .block_size = size}, disk));
}

}
}
