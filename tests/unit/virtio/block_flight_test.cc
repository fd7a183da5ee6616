// Several requests at a time: answers in any order, resets in the middle, and limits.

#include "block_fixture.h"

namespace mvm::virtio {
namespace {

using std::chrono::milliseconds;

class BlockFlightTest : public BlockTest {
 protected:
  // The `slot`th of many requests, with header, data and status of its own.
  uint16_t add(uint32_t slot, uint32_t type, uint64_t sector, uint32_t length = 512) {
    const uint64_t at = kData + slot * 0x1000;
    driver().put<uint32_t>(at, type);
    driver().put<uint32_t>(at + 4, 0);
    driver().put<uint64_t>(at + 8, sector);
    driver().put<uint8_t>(at + 16, kUntouched);
    if (length == 0) return driver().add({{at, 16, false}, {at + 16, 1, true}});
    return driver().add({{at, 16, false}, {at + 32, length, type != kOut}, {at + 16, 1, true}});
  }
  uint8_t status(uint32_t slot) { return driver().get<uint8_t>(kData + slot * 0x1000 + 16); }
};

TEST_F(BlockFlightTest, AnswersComeBackInAnyOrder) {
  for (size_t i = 0; i < 3; ++i) disk.bytes[i * 512] = std::byte(i + 1);
  std::vector<uint16_t> heads;
  for (uint32_t i = 0; i < 3; ++i) heads.push_back(add(i, kIn, i));
  EXPECT_EQ(device->process(0), Progress::Idle);
  EXPECT_EQ(device->in_flight(), 3U);
  EXPECT_FALSE(driver().take_used());
  for (const size_t index : {2, 0, 0}) disk.finish(*device, index);
  for (const uint32_t slot : {2U, 0U, 1U}) {
    const auto used = driver().take_used();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->head, heads[slot]);
    EXPECT_EQ(used->length, 513U);
    EXPECT_EQ(status(slot), kOk);
    EXPECT_EQ(driver().get<uint8_t>(kData + slot * 0x1000 + 32), slot + 1);
  }
  EXPECT_EQ(device->in_flight(), 0U);
}

TEST_F(BlockFlightTest, OneInterruptForAllAnswersOfATurn) {
  for (uint32_t i = 0; i < 3; ++i) add(i, kIn, i);
  device->process(0);
  EXPECT_FALSE(device->take_effects().used_buffers) << "nothing is done yet";
  disk.finish_all(*device);
  EXPECT_TRUE(device->take_effects().used_buffers);
  EXPECT_FALSE(device->take_effects().used_buffers);
}

TEST_F(BlockFlightTest, AFailureIsOneRequestsOwn) {
  for (uint32_t i = 0; i < 3; ++i) add(i, kOut, i);
  device->process(0);
  disk.finish(*device);
  disk.failing = true;
  disk.finish(*device);
  disk.failing = false;
  disk.finish(*device);
  EXPECT_EQ(status(0), kOk);
  EXPECT_EQ(status(1), kIoError);
  EXPECT_EQ(status(2), kOk);
}

TEST_F(BlockFlightTest, WhatTheEngineCannotTakeWaitsInTheQueue) {
  start(Access::ReadWrite, Features().with(kFlushFeature), 256);
  header(kFlush, 0);
  const auto publish_all = [&] {
    while (driver().free_descriptors() >= 1) {
      const std::array<Buffer, 2> chain{{{kHeader, 16, false}, {kStatus, 1, true}}};
      driver().add_indirect(chain, 0x80000);
    }
  };
  publish_all();
  EXPECT_EQ(device->process(0), Progress::More);
  while (device->process(0) == Progress::More) {
  }
  EXPECT_EQ(disk.waiting.size(), Block::kMaxInFlight);
  EXPECT_FALSE(device->resume_at()) << "an answer is awaited, not a time";
  disk.finish(*device);
  EXPECT_EQ(device->process(0), Progress::Idle);
  EXPECT_EQ(disk.waiting.size(), Block::kMaxInFlight) << "one went, one came";
  int answers = 0;
  while (!disk.waiting.empty()) {
    disk.finish_all(*device);
    device->process(0);
  }
  while (driver().take_used()) ++answers;
  EXPECT_EQ(answers, 256);
}

TEST_F(BlockFlightTest, AResetDrainsTheEngineBeforeTheQueueGoes) {
  add(0, kIn, 0);
  add(1, kOut, 1);
  device->process(0);
  const int before = disk.drains;
  device->reset();
  EXPECT_EQ(disk.drains, before + 1);
  EXPECT_EQ(device->in_flight(), 0U);
  EXPECT_FALSE(driver().take_used());
  EXPECT_EQ(status(0), kUntouched);
  EXPECT_EQ(device->process(0), Progress::Idle) << "there is no queue";
  start(Access::ReadWrite);  // the next driver
  EXPECT_EQ(request(kIn, 0, 512).status, kOk);
}

TEST_F(BlockFlightTest, AnswersAfterAFaultStillArrive) {
  add(0, kIn, 0);
  driver().publish(99);
  device->process(0);
  EXPECT_EQ(device->take_effects().fault, QueueFault::HeadOutOfRange);
  disk.finish_all(*device);
  EXPECT_EQ(status(0), kOk);
}

TEST_F(BlockFlightTest, WithoutTheFlushFeatureAWriteIsDoneWhenItsFlushIs) {
  start(Access::ReadWrite, Features().with(kWriteZeroesFeature));
  add(0, kOut, 0);
  device->process(0);
  disk.finish(*device);
  EXPECT_EQ(status(0), kUntouched);
  ASSERT_EQ(disk.waiting.size(), 1U);
  EXPECT_EQ(disk.waiting.front().verb, BlockVerb::Flush);
  disk.finish(*device);
  EXPECT_EQ(status(0), kOk);

  add(1, kOut, 0);
  device->process(0);
  disk.finish(*device);
  disk.failing = true;
  disk.finish(*device);
  EXPECT_EQ(status(1), kIoError) << "written, but not durable";
}

// ---- limits ---------------------------------------------------------------------------------

TEST_F(BlockFlightTest, OperationsBeyondTheLimitWaitForTheirTime) {
  limits.operations_per_second = 4;
  start(Access::ReadWrite);
  for (uint32_t i = 0; i < 5; ++i) add(i, kFlush, 0, 0);
  EXPECT_EQ(device->process(0), Progress::Idle);
  EXPECT_EQ(disk.waiting.size(), 4U) << "a second's worth at once";
  ASSERT_TRUE(device->resume_at());
  EXPECT_GT(*device->resume_at(), now);
  EXPECT_LE(*device->resume_at(), now + milliseconds(250));
  disk.finish_all(*device);
  device->process(0);
  EXPECT_TRUE(disk.waiting.empty()) << "an answer does not make room";
  now = *device->resume_at();
  EXPECT_EQ(device->process(0), Progress::Idle);
  EXPECT_EQ(disk.waiting.size(), 1U);
  EXPECT_FALSE(device->resume_at()) << "nothing waits";
  disk.finish_all(*device);
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(status(i), kOk) << "none is lost";
}

TEST_F(BlockFlightTest, OverTimeTheByteLimitIsExact) {
  limits.bytes_per_second = 4096;
  start(Access::ReadWrite);
  const auto began = now;
  uint64_t bytes = 0;
  for (int i = 0; i < 100; ++i) {
    // A request larger than what a second gives passes, too, and is paid off afterwards.
    const uint32_t length = i % 10 == 0 ? 8192 : 512;
    header(kIn, 0);
    driver().add({{kHeader, 16, false}, {kData, length, true}, {kStatus, 1, true}});
    device->process(0);
    if (const auto when = device->resume_at()) {
      now = *when;
      device->process(0);
    }
    ASSERT_FALSE(device->resume_at());
    disk.finish_all(*device);
    ASSERT_TRUE(driver().take_used());
    bytes += length;
  }
  // Paid for but the burst, and whatever the last request owes.
  const auto paid = std::chrono::duration<double>(now - began).count() * 4096;
  EXPECT_GE(paid, static_cast<double>(bytes) - 4096 - 8192);
  EXPECT_LE(paid, static_cast<double>(bytes));
}

TEST_F(BlockFlightTest, RestingSavesNoMoreThanASecondsWorth) {
  limits.operations_per_second = 2;
  start(Access::ReadWrite);
  now += std::chrono::hours(1000);
  for (uint32_t i = 0; i < 5; ++i) add(i, kFlush, 0, 0);
  device->process(0);
  EXPECT_EQ(disk.waiting.size(), 2U);
}

TEST_F(BlockFlightTest, RefusedRequestsCountAsOperations) {
  limits.operations_per_second = 2;
  start(Access::ReadWrite);
  for (uint32_t i = 0; i < 3; ++i) add(i, 99, 0, 0);
  device->process(0);
  EXPECT_EQ(status(1), kUnsupported);
  EXPECT_EQ(status(2), kUntouched);
  EXPECT_TRUE(device->resume_at());
}

}
}
