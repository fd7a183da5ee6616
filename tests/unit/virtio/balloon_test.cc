// The balloon gives the host what the guest does not need, in as few pieces as it can, and nothing
// else; the guest's figures are taken as they come and believed by nobody.

#include "mvm/virtio/balloon.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/bytes.h"

#include "support/active_device.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr uint64_t kMemory = 4 << 20;
constexpr uint64_t kPages = kMemory / Balloon::kPage;
constexpr uint64_t kData = 0x40000;
constexpr Features kAll = Features().with(1).with(2).with(4).with(5);

// Remembers each run of pages as (address, length).
class Released : public PageSink {
 public:
  explicit Released(const GuestMemory& memory) : memory_(memory) {}
  void release(std::span<std::byte> pages) noexcept override {
    runs.emplace_back(pages.data() - memory_.regions().front().host, pages.size());
  }
  std::vector<std::pair<uint64_t, uint64_t>> runs;

 private:
  const GuestMemory& memory_;
};

class BalloonTest : public testing::Test {
 protected:
  explicit BalloonTest(Features features = kAll)
      : active(std::make_unique<test::ActiveDevice>(memory, device, features, uint16_t{16})) {}

  test::DriverQueue& inflate() { return active->drivers[0]; }
  test::DriverQueue& deflate() { return active->drivers[1]; }
  test::DriverQueue& statistics() { return active->drivers[2]; }
  test::DriverQueue& reporting() { return active->drivers[3]; }

  void give(const std::vector<uint32_t>& pages) {
    for (size_t i = 0; i < pages.size(); ++i) inflate().put<uint32_t>(kData + 4 * i, pages[i]);
    inflate().add({{kData, static_cast<uint32_t>(4 * pages.size()), false}});
    EXPECT_EQ(device.process(0), Progress::Idle);
    EXPECT_EQ(inflate().take_used()->length, 0U);
  }
  void offer_statistics(const std::vector<std::pair<uint16_t, uint64_t>>& entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      statistics().put<uint16_t>(kData + 10 * i, entries[i].first);
      statistics().put<uint64_t>(kData + 10 * i + 2, entries[i].second);
    }
    statistics().add({{kData, static_cast<uint32_t>(10 * entries.size()), false}});
    EXPECT_EQ(device.process(2), Progress::Idle);
  }
  void set_poison(uint32_t value) { device.write_config(12, std::as_bytes(std::span(&value, 1))); }

  GuestMemory memory = GuestMemory::create(kMemory);
  Released released{memory};
  Balloon device{memory, released, true};
  std::unique_ptr<test::ActiveDevice> active;
};

// ---- inflate ----

TEST_F(BalloonTest, NeighboursGoTogetherInWhateverOrderTheyCome) {
  give({9, 3, 1, 2, 8, 5});
  EXPECT_THAT(released.runs,
              ElementsAre(Pair(0x1000, 0x3000), Pair(0x5000, 0x1000), Pair(0x8000, 0x2000)));
}

TEST_F(BalloonTest, APageNamedTwiceGoesOnce) {
  give({7, 7, 8, 7, 8});
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x7000, 0x2000)));
}

TEST_F(BalloonTest, PagesThatTheGuestDoesNotHaveArePassedOver) {
  give({kPages - 1, kPages, 0xc0000, 0xffff'ffff, 0});
  EXPECT_THAT(released.runs, ElementsAre(Pair(0, 0x1000), Pair(kMemory - 0x1000, 0x1000)));
}

TEST_F(BalloonTest, HalfAPageNumberIsNone) {
  inflate().put<uint32_t>(kData, 4);
  inflate().put<uint32_t>(kData + 4, 6);
  inflate().add({{kData, 6, false}});
  device.process(0);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x4000, 0x1000)));
}

TEST_F(BalloonTest, ANumberMayLieInTwoDescriptors) {
  inflate().put<uint32_t>(kData, 0x104);
  inflate().add({{kData, 1, false}, {kData + 1, 3, false}});
  device.process(0);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x104000, 0x1000)));
}

// 16 descriptors of 1 MiB on the same memory claim four million page numbers.
TEST_F(BalloonTest, OfARequestOnlySoManyPagesAreLookedAt) {
  for (uint32_t i = 0; i < Balloon::kMaxPages + 100; ++i)
    inflate().put<uint32_t>(0x100000 + 4 * i, i % kPages);
  inflate().add(std::vector<test::Buffer>(16, {0x100000, 1 << 20, false}));
  EXPECT_EQ(device.process(0), Progress::Idle);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0, Balloon::kMaxPages * Balloon::kPage)));
}

TEST_F(BalloonTest, WritableBuffersNameNoPages) {
  inflate().put<uint32_t>(kData, 4);
  inflate().add({{kData, 4, true}});
  device.process(0);
  EXPECT_THAT(released.runs, IsEmpty());
  EXPECT_EQ(inflate().take_used()->length, 0U);
}

TEST_F(BalloonTest, DeflationIsAnsweredAndTouchesNothing) {
  deflate().put<uint32_t>(kData, 4);
  deflate().add({{kData, 4, false}});
  EXPECT_EQ(device.process(1), Progress::Idle);
  EXPECT_TRUE(deflate().take_used());
  EXPECT_THAT(released.runs, IsEmpty());
  EXPECT_TRUE(device.take_effects().used_buffers);
}

TEST_F(BalloonTest, OneTurnIsBounded) {
  for (uint32_t i = 0; i < Balloon::kRequestsPerTurn + 1; ++i) inflate().add({{kData, 4, false}});
  EXPECT_EQ(device.process(0), Progress::More);
  EXPECT_EQ(inflate().used_index(), Balloon::kRequestsPerTurn);
  EXPECT_EQ(device.process(0), Progress::Idle);
}

// ---- reporting ----

TEST_F(BalloonTest, ReportedPagesGo) {
  reporting().add({{0x200000, 0x100000, true}, {0x100000, 0x2000, true}});
  EXPECT_EQ(device.process(3), Progress::Idle);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x200000, 0x100000), Pair(0x100000, 0x2000)));
  EXPECT_EQ(reporting().take_used()->length, 0U);
}

TEST_F(BalloonTest, OnlyWholePagesOfAReportGo) {
  reporting().add({{0x100800, 0x2000, true}, {0x200001, 0xffe, true}});
  device.process(3);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x101000, 0x1000)));
}

TEST_F(BalloonTest, WhatIsToBeReadIsNoReport) {
  reporting().add({{0x100000, 0x2000, false}});
  device.process(3);
  EXPECT_THAT(released.runs, IsEmpty());
}

TEST_F(BalloonTest, PagesThatMustHoldAPatternStay) {
  set_poison(0xaaaa'aaaa);
  reporting().add({{0x100000, 0x2000, true}});
  device.process(3);
  EXPECT_THAT(released.runs, IsEmpty());
  EXPECT_TRUE(reporting().take_used());
  set_poison(0);
  reporting().add({{0x100000, 0x2000, true}});
  device.process(3);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x100000, 0x2000)));
}

TEST_F(BalloonTest, AReportOutsideMemoryIsAFault) {
  reporting().add({{kMemory - 0x1000, 0x2000, true}});
  device.process(3);
  EXPECT_EQ(device.take_effects().fault, QueueFault::BufferOutsideMemory);
  EXPECT_THAT(released.runs, IsEmpty());
}

struct WithoutStatistics : BalloonTest {
  WithoutStatistics() : BalloonTest(Features().with(5)) {}
};
TEST_F(WithoutStatistics, ReportsMoveUpToTheQueueThatIsFree) {
  active->drivers[2].add({{0x100000, 0x1000, true}});
  EXPECT_EQ(device.process(2), Progress::Idle);
  EXPECT_THAT(released.runs, ElementsAre(Pair(0x100000, 0x1000)));
  active->drivers[3].add({{0x100000, 0x1000, true}});
  EXPECT_EQ(device.process(3), Progress::Idle);
  EXPECT_FALSE(active->drivers[3].take_used());
  EXPECT_FALSE(device.request_statistics());
}

TEST(Balloon, WithoutReportingThereIsNoQueueForIt) {
  const auto memory = GuestMemory::create(kMemory);
  Released released(memory);
  const Balloon device(memory, released, false);
  EXPECT_EQ(device.queue_sizes().size(), 3U);
  EXPECT_FALSE(device.features().has(5));
  EXPECT_TRUE(device.features().has(2));  // deflate on out-of-memory, always
}

// ---- statistics ----

TEST_F(BalloonTest, StatisticsWaitUntilTheHostWantsNewOnes) {
  offer_statistics({{4, 111}, {5, 222}, {6, 333}, {99, 7}});
  EXPECT_TRUE(device.take_news());
  EXPECT_FALSE(device.take_news());
  EXPECT_FALSE(statistics().take_used());
  EXPECT_EQ(device.statistic(BalloonStatistic::FreeMemory), 111U);
  EXPECT_EQ(device.statistic(BalloonStatistic::TotalMemory), 222U);
  EXPECT_EQ(device.statistic(BalloonStatistic::AvailableMemory), 333U);
  EXPECT_EQ(device.statistic(BalloonStatistic::SwapIn), std::nullopt);

  EXPECT_TRUE(device.request_statistics());
  EXPECT_TRUE(device.take_effects().used_buffers);
  EXPECT_EQ(statistics().take_used()->length, 0U);
  offer_statistics({{0, 5}});
  EXPECT_TRUE(device.take_news());
  EXPECT_EQ(device.statistic(BalloonStatistic::SwapIn), 5U);
  EXPECT_EQ(device.statistic(BalloonStatistic::FreeMemory), std::nullopt);
}

TEST_F(BalloonTest, ARequestBeforeTheDriverIsReadyIsAnsweredByItsFirstFigures) {
  EXPECT_TRUE(device.request_statistics());
  EXPECT_FALSE(device.take_news());
  offer_statistics({{4, 1}});
  EXPECT_TRUE(device.take_news());
}

TEST_F(BalloonTest, OfSeveralBuffersTheLatestIsKept) {
  offer_statistics({{4, 1}});
  offer_statistics({{4, 2}});
  EXPECT_TRUE(statistics().take_used());
  EXPECT_FALSE(statistics().take_used());
  EXPECT_EQ(device.statistic(BalloonStatistic::FreeMemory), 2U);
}

TEST_F(BalloonTest, StatisticsBuffersInPlentyAreATurnsWork) {
  for (int i = 0; i < 16; ++i) statistics().add({{kData, 10, false}});
  EXPECT_EQ(device.process(2), Progress::More);
  EXPECT_EQ(statistics().used_index(), Balloon::kRequestsPerTurn - 1);
}

// A buffer of 1 MiB of entries that all set the same tag: only the first of them are read.
TEST_F(BalloonTest, OfABufferOnlySoManyEntriesAreRead) {
  for (uint32_t i = 0; i < Balloon::kMaxStatistics + 1; ++i) {
    statistics().put<uint16_t>(0x100000 + 10 * i, 4);
    statistics().put<uint64_t>(0x100000 + 10 * i + 2, i);
  }
  statistics().add({{0x100000, 1 << 20, false}});
  device.process(2);
  EXPECT_EQ(device.statistic(BalloonStatistic::FreeMemory), Balloon::kMaxStatistics - 1);
}

TEST_F(BalloonTest, NobodyAnswersAfterAReset) {
  offer_statistics({{4, 1}});
  device.reset();
  EXPECT_FALSE(device.request_statistics());
  EXPECT_FALSE(device.take_news());
  EXPECT_EQ(device.statistic(BalloonStatistic::FreeMemory), std::nullopt);
}

// ---- configuration ----

uint32_t field(const Balloon& device, size_t offset) {
  uint32_t value = 0;
  std::memcpy(&value, device.config().data() + offset, sizeof value);
  return value;
}

TEST_F(BalloonTest, ATargetIsInPagesAndTellsTheDriver) {
  device.set_target(10 * Balloon::kPage + 1);
  EXPECT_EQ(field(device, 0), 10U);
  EXPECT_TRUE(device.take_effects().config_changed);
  device.set_target(UINT64_MAX);
  EXPECT_EQ(device.target(), kMemory);
}

TEST_F(BalloonTest, TheTargetOutlivesAResetAndTheDriversWordDoesNot) {
  device.set_target(8 * Balloon::kPage);
  const uint32_t actual = 5;
  device.write_config(4, std::as_bytes(std::span(&actual, 1)));
  EXPECT_EQ(device.actual(), 5 * Balloon::kPage);
  device.reset();
  EXPECT_EQ(device.actual(), 0U);
  EXPECT_EQ(device.target(), 8 * Balloon::kPage);
}

TEST_F(BalloonTest, TheDriverClaimsAtMostWhatItHas) {
  const uint32_t actual = UINT32_MAX;
  device.write_config(4, std::as_bytes(std::span(&actual, 1)));
  EXPECT_EQ(device.actual(), kMemory);
}

TEST_F(BalloonTest, OtherWritesToTheConfigurationChangeNothing) {
  const Bytes before(device.config().begin(), device.config().end());
  const uint64_t ones = UINT64_MAX;
  const ByteView bytes = std::as_bytes(std::span(&ones, 1));
  for (uint64_t offset = 0; offset < 20; ++offset)
    for (const size_t width : {1U, 2U, 4U, 8U})
      if (width != 4 || (offset != 4 && offset != 12))
        device.write_config(offset, bytes.first(width));
  device.write_config(UINT64_MAX, bytes.first(4));
  EXPECT_TRUE(std::ranges::equal(device.config(), before));
}

}
}
