#include "guard.h"

#include <gtest/gtest.h>

namespace mvm::guest {

static constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(CommandShare, LeavesTheAgentAndTheKernelSome) {
  const auto small = command_share(200 * kMiB, 1600);
  EXPECT_EQ(small.memory, 200 * kMiB - 200 * kMiB / 16);
  EXPECT_EQ(small.processes, 1400U);
  EXPECT_EQ(small.processes_each, 1225U);
  EXPECT_EQ(command_share(64 * 1024 * kMiB, 500000).memory, 64 * 1024 * kMiB - 64 * kMiB);
}

TEST(CommandShare, LeavesOutLimitsThatWouldLeaveNothing) {
  const auto tiny = command_share(20 * kMiB, 8);
  EXPECT_EQ(tiny.memory, 0U);
  EXPECT_GE(tiny.processes, 16U);
  EXPECT_GE(tiny.processes_each, 8U);
}

}
