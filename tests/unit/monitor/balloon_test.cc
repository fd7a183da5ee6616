// What the balloon does to the host's memory, and what is said of a guest that has no driver.
#include "../../../src/monitor/balloon.h"

#include <algorithm>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>

namespace mvm::monitor {

using memory::GuestAddress;
using memory::GuestMemory;

static constexpr uint64_t kMiB = 1 << 20;

static size_t resident_pages(std::span<std::byte> pages) {
  std::vector<unsigned char> there(pages.size() / memory::kPageSize);
  EXPECT_EQ(::mincore(pages.data(), pages.size(), there.data()), 0);
  size_t count = 0;
  for (const unsigned char page : there) count += page & 1;
  return count;
}

TEST(HostPages, AreFreedAndReadAsZeros) {
  const auto memory = GuestMemory::create(8 * kMiB);
  const auto all = *memory.slice(GuestAddress{0}, 8 * kMiB);
  std::fill(all.begin(), all.end(), std::byte{0x5a});
  HostPages pages;
  pages.release(all.subspan(2 * kMiB, 4 * kMiB));
  EXPECT_EQ(pages.released(), 4 * kMiB);
  EXPECT_EQ(resident_pages(all.subspan(2 * kMiB, 4 * kMiB)), 0U);
  EXPECT_EQ(all[2 * kMiB - 1], std::byte{0x5a});
  EXPECT_EQ(all[6 * kMiB], std::byte{0x5a});
  EXPECT_EQ(all[2 * kMiB], std::byte{0});
  EXPECT_EQ(all[6 * kMiB - 1], std::byte{0});
}

TEST(HostPages, WhatCannotBeFreedIsNotCounted) {
  HostPages pages;
  const auto memory = GuestMemory::create(kMiB);
  pages.release(memory.slice(GuestAddress{0}, kMiB)->subspan(1, memory::kPageSize));  // no page
  EXPECT_EQ(pages.released(), 0U);
}

TEST(MemoryBalloon, WithoutADriverTheAnswerHasNoFiguresOfTheGuests) {
  loop::Loop loop;
  const auto memory = GuestMemory::create(4 * kMiB);
  std::vector<proto::MemoryUse> answers;
  MemoryBalloon balloon(loop, memory, [&](const proto::MemoryUse& use) { answers.push_back(use); });
  DeviceSlot slot(memory, balloon.device(), GuestAddress{0xd000'0000}, 5, [](uint32_t) {});
  balloon.attach(slot);
  balloon.set_target(3 * kMiB + 5);
  balloon.ask();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].guest_total);
  EXPECT_EQ(answers[0].balloon, 0U);
  EXPECT_EQ(answers[0].balloon_target, 3 * kMiB);
  balloon.ask();
  EXPECT_EQ(answers.size(), 2U);
}

}
