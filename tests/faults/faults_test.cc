// What the daemon does when the system lets it down: each operation is run again and again, and
// each time another one of its system calls fails, or is the daemon's last.
//
// All of them take a while; by default every test takes a sample (sample.h).

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"

#include "operations.h"
#include "sample.h"
#include "world.h"

namespace mvm::faults {

// Of a log that could not be synced nobody knows what is on the disk: the daemon does nothing more
// that would have to be recorded, and its next start goes on in a new file.
static bool lost_its_log(const std::string& told) {
  return told.find("syncing the audit log") != told.npos;
}

class Faults : public testing::TestWithParam<int> {};

TEST_P(Faults, OfOneCallAreOneErrorAndLeaveNothing) {
  const int error = GetParam();
  World world;
  ASSERT_TRUE(world.start()) << world.last_words();
  const auto step = [&](const std::function<void(World&)>& work) {
    try {
      work(world);
    } catch (const Error& failure) {
      // It may come out with the next request only.
      if (!lost_its_log(failure.message())) throw;
      world.kill_daemon();
      if (world.start()) work(world);
    }
  };
  Sample calls(7);
  int fired = 0;
  for (const Operation& operation : operations()) {
    step(operation.before);
    step(operation.after);
    const size_t descriptors = world.open_descriptors();
    for (int n = calls.first();; n += calls.step()) {
      SCOPED_TRACE(std::string(operation.name) + ", call " + std::to_string(n) + ": " +
                   sys::errno_text(error));
      step(operation.before);
      world.arm(n, error);
      const std::string told = act_and_tell(world, operation);
      const bool happened = world.disarm();
      ASSERT_TRUE(world.daemon_lives()) << told << "\n" << world.last_words();
      if ((!happened && !lost_its_log(told)) || error == EINTR) {
        EXPECT_EQ(told, "");
      }
      EXPECT_EQ(told.find('\n'), std::string::npos) << told;
      if (!lost_its_log(told)) {
        ASSERT_EQ(undecided(world), "") << told;
        ASSERT_EQ(world.complaints(), "") << told;
      }
      step(operation.after);
      ASSERT_EQ(world.complaints(), "") << told;
      for (int tries = 0; world.open_descriptors() > descriptors && tries < 20'000; ++tries)
        ::usleep(100);
      ASSERT_LE(world.open_descriptors(), descriptors) << told;
      if (!happened) break;
      ++fired;
    }
  }
  std::printf("%d calls failed with: %s\n", fired, sys::errno_text(error).c_str());
  EXPECT_GT(fired, 10);
}

INSTANTIATE_TEST_SUITE_P(Every, Faults, testing::Values(ENOSPC, EMFILE, ENOMEM, EINTR), error_name);

TEST(Kill, AtAnyCallOfAnyOperationIsRepairedByTheNextStart) {
  World world;
  ASSERT_TRUE(world.start()) << world.last_words();
  Sample calls(kSlow ? 7 : 2);
  int killed = 0;
  int repaired = 0;
  for (const Operation& operation : operations()) {
    for (int n = calls.first();; n += calls.step()) {
      SCOPED_TRACE(std::string(operation.name) + ", call " + std::to_string(n));
      operation.before(world);
      world.arm(n, kKill);
      const std::string told = act_and_tell(world, operation);
      if (!world.disarm()) {
        EXPECT_EQ(told, "");
        operation.after(world);
        break;
      }
      ++killed;
      while (world.daemon_lives()) ::usleep(100);
      ASSERT_TRUE(world.start()) << world.last_words();
      ASSERT_EQ(world.complaints(), "") << told;
      repaired += world.last_words().find("repaired") != std::string::npos ? 1 : 0;
      operation.after(world);
      ASSERT_EQ(world.complaints(), "") << told;
    }
  }
  std::printf("killed %d times; %d starts had something to repair\n", killed, repaired);
  EXPECT_GT(killed, kSlow ? 100 : 300);
  EXPECT_GT(repaired, 0);
  const auto version = world.client()->version();
  ASSERT_TRUE(version.last_repair);
  EXPECT_FALSE(version.last_repair->actions.empty());
}

// The sandboxes go on, whatever the daemon's start runs into, and the next start finds them.
class StartFaults : public testing::TestWithParam<int> {};

TEST_P(StartFaults, LoseNoSandbox) {
  World world;
  ASSERT_TRUE(world.start()) << world.last_words();
  have_stopped(world);
  const auto running = world.client()->create(spec("runs"));
  Sample calls(5);
  int fired = 0;
  // Each start has a call more than the last: it looks at one more file of the daemon's log.
  world.kill_daemon();
  world.arm(std::numeric_limits<int>::max(), GetParam());
  ASSERT_TRUE(world.start()) << world.last_words();
  world.disarm();
  const int all = world.calls();
  for (int n = calls.first(); n <= all; n += calls.step()) {
    SCOPED_TRACE("call " + std::to_string(n));
    world.kill_daemon();
    // Something to repair, so that this is disturbed as well.
    sys::make_directories(world.paths().sandboxes_dir() + "/sb-orphan/deep");
    world.arm(n, GetParam());
    bool serves = world.start();
    const bool happened = world.disarm();
    if (happened && GetParam() == kKill) {
      // Perhaps by a call after its first answer.
      while (world.daemon_lives()) ::usleep(100);
      serves = false;
    }
    if (!serves) {
      EXPECT_TRUE(happened);
      if (GetParam() != kKill) {
        EXPECT_NE(world.last_words(), "");
      }
      EXPECT_NE(GetParam(), EINTR) << world.last_words();
      ASSERT_TRUE(world.start()) << world.last_words();
    }
    ASSERT_EQ(world.complaints(), "");
    const auto after = world.client()->sandbox("runs");
    ASSERT_EQ(after.state, api::SandboxState::Running) << world.last_words();
    ASSERT_EQ(after.sandbox_pid, running.sandbox_pid);
    ASSERT_EQ(world.client()->sandboxes(true).size(), 2U);
    if (!happened) break;
    ++fired;
  }
  std::printf("%d starts were disturbed\n", fired);
  EXPECT_GT(fired, 3);
  world.client()->remove("runs", true);
}

INSTANTIATE_TEST_SUITE_P(Every, StartFaults, testing::Values(ENOSPC, EMFILE, ENOMEM, EINTR, kKill),
                         error_name);

static uint64_t resident_kib(pid_t pid) {
  const std::string status = sys::read_text_file("/proc/" + std::to_string(pid) + "/status", 65536);
  const size_t at = status.find("VmRSS:");
  return std::strtoull(status.c_str() + at + 6, nullptr, 10);
}

TEST(Cycles, LeaveNothingBehind) {
  const char* text = std::getenv("MVM_CYCLES");
  const int cycles = text != nullptr ? std::atoi(text) : kSlow ? 100 : 1000;
  World world;
  ASSERT_TRUE(world.start()) << world.last_words();
  const auto cycle = [&] {
    world.client()->create(spec("web"));
    world.client()->remove("web", true);
  };
  // Until caches and pools have the size they keep.
  for (int i = 0; i < std::min(cycles / 2, 200); ++i) cycle();
  ASSERT_EQ(world.complaints(), "");
  const size_t descriptors = world.open_descriptors();
  const std::string mounts = sys::read_text_file("/proc/self/mounts", size_t{1} << 20);
  const uint64_t before = resident_kib(world.daemon_pid());
  for (int i = 0; i < cycles; ++i) cycle();
  EXPECT_EQ(world.complaints(), "");
  for (int tries = 0; world.open_descriptors() > descriptors && tries < 20'000; ++tries)
    ::usleep(100);
  EXPECT_LE(world.open_descriptors(), descriptors);
  EXPECT_EQ(sys::read_text_file("/proc/self/mounts", size_t{1} << 20), mounts);
  const uint64_t after = resident_kib(world.daemon_pid());
  std::printf("%d cycles: %llu KiB, then %llu KiB resident\n", cycles,
              static_cast<unsigned long long>(before), static_cast<unsigned long long>(after));
  // The address sanitizer keeps what was freed, to catch its use.
  if (!kSlow) {
    EXPECT_LE(after, before + 1024 + static_cast<uint64_t>(cycles) / 2);
  }
}

}
