// The checked way into guest memory: what lies inside a region is reached, everything else is not.
#include "mvm/memory/guest_memory.h"

#include <array>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::memory {

static constexpr uint64_t kMiB = 1 << 20;
static constexpr uint64_t kTop = std::numeric_limits<uint64_t>::max();

TEST(GuestMemory, RefusesSizesThatAreNotPages) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kPageSize - 1, kPageSize + 1, kTop}) {
    try {
      GuestMemory::create(size);
      FAIL() << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Kind::Invalid) << size;
    }
  }
}

TEST(GuestMemory, RefusesASizeThatNoAddressSpaceHas) {
  EXPECT_THROW(GuestMemory::create(kTop - (kPageSize - 1)), Error);
}

TEST(GuestMemory, TheLargestGuestCostsNothingUntilItIsTouched) {
  constexpr uint64_t kHigh = kMmioGapEnd + kMaxGuestMemory - kMmioGapStart;
  const auto memory = GuestMemory::create(kMaxGuestMemory);
  ASSERT_EQ(memory.regions().size(), 2U);
  EXPECT_EQ(memory.regions()[0].size, kMmioGapStart);
  EXPECT_EQ(memory.regions()[1].size, kMaxGuestMemory - kMmioGapStart);
  EXPECT_TRUE(memory.slice(GuestAddress{kHigh - 1}, 1));
  EXPECT_TRUE(memory.slice(GuestAddress{kMmioGapEnd}, kMaxGuestMemory - kMmioGapStart));
  EXPECT_FALSE(memory.slice(GuestAddress{kHigh - 1}, 2));
  EXPECT_FALSE(memory.slice(GuestAddress{kHigh}, 1));
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapEnd - 1}, 1));
  // A touch at either end of each region reaches memory.
  for (const uint64_t at : {uint64_t{0}, kMmioGapStart - 1, kMmioGapEnd, kHigh - 1})
    EXPECT_TRUE(memory.write_value(GuestAddress{at}, uint8_t{1}));
  EXPECT_THROW(GuestMemory::create(kMaxGuestMemory + kPageSize), Error);
}

TEST(GuestMemory, OfHugePagesIsReservedWholeOrRefused) {
  EXPECT_THROW(GuestMemory::create(kHugePageSize + kPageSize, Backing::HugePages), Error);
  // More than any host sets aside: the refusal comes before the guest could meet it.
  try {
    GuestMemory::create(kMaxGuestMemory, Backing::HugePages);
    GTEST_SKIP() << "this host has 64 GiB of huge pages in reserve";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Exhausted);
    EXPECT_NE(error.message().find("vm.nr_hugepages"), std::string::npos) << error.message();
  }
}

TEST(GuestMemory, IsOneRegionBelowTheGap) {
  const auto memory = GuestMemory::create(16 * kMiB);
  ASSERT_EQ(memory.regions().size(), 1U);
  EXPECT_EQ(memory.regions()[0].start.value, 0U);
  EXPECT_EQ(memory.regions()[0].size, 16 * kMiB);
  EXPECT_EQ(memory.size(), 16 * kMiB);
}

TEST(GuestMemory, ExactlyFillsTheSpaceBelowTheGap) {
  const auto memory = GuestMemory::create(kMmioGapStart);
  ASSERT_EQ(memory.regions().size(), 1U);
  EXPECT_TRUE(memory.slice(GuestAddress{kMmioGapStart - 1}, 1));
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapStart}, 1));
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapEnd}, 1));
}

TEST(GuestMemory, GoesOnBehindTheGap) {
  const auto memory = GuestMemory::create(kMmioGapStart + kPageSize);
  ASSERT_EQ(memory.regions().size(), 2U);
  EXPECT_EQ(memory.regions()[1].start.value, kMmioGapEnd);
  EXPECT_EQ(memory.regions()[1].size, kPageSize);
  EXPECT_TRUE(memory.slice(GuestAddress{kMmioGapEnd}, kPageSize));
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapEnd}, kPageSize + 1));
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapEnd + kPageSize}, 1));
  // Nothing crosses the gap, whatever the length.
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapStart - 1}, 2));
  EXPECT_FALSE(memory.slice(GuestAddress{kMmioGapStart - 1}, kMmioGapEnd - kMmioGapStart + 2));
  EXPECT_FALSE(memory.slice(GuestAddress{0}, memory.size()));
}

struct Range {
  uint64_t start;
  uint64_t length;
  bool inside;
};

TEST(GuestMemory, SlicesOnlyWhatLiesInside) {
  constexpr uint64_t size = 2 * kPageSize;
  const auto memory = GuestMemory::create(size);
  for (const auto& [start, length, inside] : std::to_array<Range>({
           {0, 0, true},
           {0, 1, true},
           {0, size, true},
           {0, size + 1, false},
           {size - 1, 1, true},
           {size - 1, 2, false},
           {size, 0, false},
           {size, 1, false},
           {1, size, false},
           {1, kTop, false},          // start + length wraps to 0
           {kPageSize, kTop, false},  // and to below the start
           {kTop, 1, false},
           {kTop, kTop, false},
           {0, kTop, false},
       })) {
    const auto slice = memory.slice(GuestAddress{start}, length);
    EXPECT_EQ(slice.has_value(), inside) << start << "+" << length;
    if (slice) {
      EXPECT_EQ(slice->size(), length);
      EXPECT_EQ(slice->data(), memory.regions()[0].host + start);
    }
  }
}

TEST(GuestMemory, StartsAsZeros) {
  const auto memory = GuestMemory::create(kPageSize);
  EXPECT_EQ(memory.read_value<uint64_t>(GuestAddress{0}), 0U);
  EXPECT_EQ(memory.read_value<uint64_t>(GuestAddress{kPageSize - 8}), 0U);
}

TEST(GuestMemory, ReadsWhatWasWritten) {
  const auto memory = GuestMemory::create(kPageSize);
  const std::string text = "straddles nothing";
  ASSERT_TRUE(memory.write(GuestAddress{100}, as_bytes(text)));
  std::array<std::byte, 17> back{};
  ASSERT_TRUE(memory.read(GuestAddress{100}, back));
  EXPECT_EQ(as_text(back), text);
}

TEST(GuestMemory, ARefusedWriteChangesNothing) {
  const auto memory = GuestMemory::create(kPageSize);
  ASSERT_TRUE(memory.write_value(GuestAddress{kPageSize - 4}, uint32_t{0x11223344}));
  EXPECT_FALSE(memory.write_value(GuestAddress{kPageSize - 4}, uint64_t{0}));
  EXPECT_EQ(memory.read_value<uint32_t>(GuestAddress{kPageSize - 4}), 0x11223344U);
  EXPECT_FALSE(memory.read_value<uint64_t>(GuestAddress{kPageSize - 4}));
}

TEST(GuestMemory, RefusesEmptyAccessesOutside) {
  const auto memory = GuestMemory::create(kPageSize);
  EXPECT_TRUE(memory.read(GuestAddress{5}, {}));
  EXPECT_TRUE(memory.write(GuestAddress{5}, {}));
  EXPECT_FALSE(memory.read(GuestAddress{kPageSize}, {}));
  EXPECT_FALSE(memory.write(GuestAddress{kTop}, {}));
}

// The guest's large pages and the host's can only fall together when both begin together.
TEST(GuestMemory, RegionsBeginAtAHugePagesBoundary) {
  for (const uint64_t size : {kPageSize, 16 * kMiB, kMmioGapStart + kPageSize}) {
    const auto memory = GuestMemory::create(size);
    for (const auto& region : memory.regions())
      EXPECT_EQ(reinterpret_cast<uintptr_t>(region.host) % kHugePageSize, 0U) << size;
  }
}

TEST(GuestMemory, SurvivesAMove) {
  auto memory = GuestMemory::create(kPageSize);
  ASSERT_TRUE(memory.write_value(GuestAddress{0}, uint16_t{7}));
  const GuestMemory moved = std::move(memory);
  EXPECT_EQ(moved.read_value<uint16_t>(GuestAddress{0}), 7);
}

TEST(GuestMemory, IndexAccessIsAPlainLittleEndianWord) {
  const auto memory = GuestMemory::create(kPageSize);
  const auto field = memory.slice(GuestAddress{64}, 2);
  ASSERT_TRUE(field);
  store_u16(field->data(), 0xbeef, std::memory_order_release);
  EXPECT_EQ(load_u16(field->data(), std::memory_order_acquire), 0xbeef);
  EXPECT_EQ(memory.read_value<uint8_t>(GuestAddress{64}), 0xef);
}

}
