// What an engine says of a disk when the system fails it: every error at every one of its calls.
// Of an io_uring the calls are liburing's, and the errors stand in its completions too.
#include <array>
#include <atomic>
#include <cerrno>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "../../../src/monitor/disk_engine.h"
#include "no_holes.h"

namespace mvm::monitor {

std::atomic<bool> no_holes{false};

using virtio::Block;
using virtio::BlockOperation;
using virtio::BlockResult;
using virtio::BlockVerb;

namespace {

// The call that fails, counted from 1 as calls come; 0: none. The worker threads count too.
std::atomic<int> countdown{0};
std::atomic<int> error_to_give{0};
// Of the completions of an io_uring.
std::atomic<int> completions_to_fail{0};

bool fails() { return countdown > 0 && --countdown == 0; }

size_t descriptors() {
  size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

}

class DiskFaults : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { error_to_give = GetParam(); }
  void TearDown() override {
    countdown = 0;
    completions_to_fail = 0;
  }

  std::unique_ptr<DiskEngine> make(EngineKind kind) const {
    auto engine = make_disk_engine(kind, sys::open_file(dir_.path() + "/disk", O_RDWR | O_CREAT));
    engine->start_threads({[] {}, [](const std::string& why) { FAIL() << why; }});
    return engine;
  }
  // As the disk's thread does it: what could not be committed is committed later.
  static BlockResult run(DiskEngine& engine, const BlockOperation& operation) {
    engine.submit(operation);
    for (int round = 0; round < 100; ++round) {
      if (!engine.commit()) continue;
      std::array<DiskAnswer, Block::kMaxInFlight> taken;
      if (engine.take_answers(taken) == 1) return taken[0].result;
      if (!engine.commit()) continue;
      pollfd entry{engine.event_fd(), POLLIN, 0};
      if (::poll(&entry, 1, 20'000) != 1) break;
    }
    ADD_FAILURE() << "no answer";
    return BlockResult::Failed;
  }
  // A signal is no fault of the disk's; everything else is the guest's I/O error.
  static BlockResult expected() {
    return error_to_give == EINTR ? BlockResult::Ok : BlockResult::Failed;
  }

  static constexpr size_t kSize = 4096;
  void every_verb(DiskEngine& engine, std::atomic<int>& trigger) {
    std::string text(kSize, 'x');
    std::array<iovec, 2> halves{{{text.data(), 100}, {&text[100], kSize - 100}}};
    for (const BlockVerb verb : {BlockVerb::Write, BlockVerb::Read, BlockVerb::Flush,
                                 BlockVerb::Zero, BlockVerb::Discard}) {
      // An operation uses its list up.
      auto segments = halves;
      const bool moves = verb == BlockVerb::Read || verb == BlockVerb::Write;
      BlockOperation operation{verb, 7, 0, kSize, {}};
      if (moves) operation.segments = segments;
      trigger = 1;
      EXPECT_EQ(run(engine, operation), expected()) << static_cast<int>(verb);
      EXPECT_EQ(trigger, 0) << "nothing was injected: " << static_cast<int>(verb);
      segments = halves;
      EXPECT_EQ(run(engine, operation), BlockResult::Ok)
          << "the next one: " << static_cast<int>(verb);
    }
  }

  const sys::TempDir dir_;
};

TEST_P(DiskFaults, OfAWorkersCallAreThatRequestsAlone) {
  const auto engine = make(EngineKind::Workers);
  if (const sys::Fd file = sys::open_file(dir_.path() + "/disk", O_RDWR);
      !can_make_holes(file.get()))
    GTEST_SKIP() << "no holes in " << dir_.path();
  every_verb(*engine, countdown);
}

TEST_P(DiskFaults, OfACompletionAreThatRequestsAlone) {
  std::unique_ptr<DiskEngine> engine;
  try {
    engine = make(EngineKind::IoUring);
  } catch (const SystemError& error) {
    GTEST_SKIP() << error.message();
  }
  every_verb(*engine, completions_to_fail);
}

// What the ring does not take stays with it until it does, and is carried out once.
TEST_P(DiskFaults, OfASubmissionDelayIt) {
  std::unique_ptr<DiskEngine> engine;
  try {
    engine = make(EngineKind::IoUring);
  } catch (const SystemError& error) {
    GTEST_SKIP() << error.message();
  }
  std::string text = "hello";
  std::array<iovec, 1> segments{{{text.data(), text.size()}}};
  countdown = 1;
  EXPECT_EQ(run(*engine, {BlockVerb::Write, 3, 0, text.size(), segments}), BlockResult::Ok);
  EXPECT_EQ(countdown, 0);
  EXPECT_EQ(sys::read_text_file(dir_.path() + "/disk", 10), "hello");
}

TEST_P(DiskFaults, OfTheMakingAreOneErrorAndLeaveNoDescriptor) {
  constexpr int kCalls = 4;
  try {
    make(EngineKind::IoUring);
  } catch (const SystemError& error) {
    GTEST_SKIP() << error.message();
  }
  const size_t before = descriptors();
  for (int failing = 1; failing <= kCalls; ++failing) {
    countdown = failing;
    std::string told;
    int reason = 0;
    try {
      make(EngineKind::IoUring);
    } catch (const SystemError& error) {
      told = error.message();
      reason = error.errno_value();
    }
    EXPECT_EQ(countdown, 0) << failing;
    EXPECT_EQ(reason, GetParam()) << told;
    EXPECT_EQ(told.find('\n'), std::string::npos) << told;
    EXPECT_EQ(descriptors(), before) << told;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, DiskFaults, testing::Values(ENOSPC, EIO, EMFILE, ENOMEM, EINTR));

// A reset of the device waits for what is under way whatever the kernel is short of
// (io_uring_enter(2)): it still writes to the guest's memory.
class DrainFaults : public DiskFaults {};

TEST_P(DrainFaults, DoNotEndIt) {
  std::unique_ptr<DiskEngine> engine;
  try {
    engine = make(EngineKind::IoUring);
  } catch (const SystemError& error) {
    GTEST_SKIP() << error.message();
  }
  std::string text = "hello";
  std::array<iovec, 1> segments{{{text.data(), text.size()}}};
  engine->submit({BlockVerb::Write, 3, 0, text.size(), segments});
  countdown = 1;
  engine->drain();
  EXPECT_EQ(countdown, 0);
  EXPECT_EQ(sys::read_text_file(dir_.path() + "/disk", 10), "hello");
}

INSTANTIATE_TEST_SUITE_P(Every, DrainFaults, testing::Values(EINTR, EAGAIN, EBUSY, ENOMEM));

}

// The linker's names: the module's calls come here.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
using mvm::monitor::completions_to_fail;
using mvm::monitor::error_to_give;
using mvm::monitor::fails;

#define FAILING(type, name, parameters, arguments) \
  type __real_##name parameters;                   \
  type __wrap_##name parameters {                  \
    if (!fails()) return __real_##name arguments;  \
    errno = error_to_give;                         \
    return -1;                                     \
  }
FAILING(ssize_t, preadv, (int fd, const iovec* list, int count, off_t at), (fd, list, count, at))
FAILING(ssize_t, pwritev, (int fd, const iovec* list, int count, off_t at), (fd, list, count, at))
FAILING(int, fdatasync, (int fd), (fd))
#undef FAILING

// In place of system calls that return their error: liburing's.
#define FAILING(name, parameters, arguments) \
  int __real_##name parameters;              \
  int __wrap_##name parameters { return fails() ? -error_to_give : __real_##name arguments; }
FAILING(io_uring_queue_init_params, (unsigned entries, io_uring* ring, io_uring_params* p),
        (entries, ring, p))
FAILING(io_uring_register_files, (io_uring * ring, const int* files, unsigned count),
        (ring, files, count))
FAILING(io_uring_register_restrictions,
        (io_uring * ring, io_uring_restriction* rules, unsigned count), (ring, rules, count))
FAILING(io_uring_enable_rings, (io_uring * ring), (ring))
FAILING(io_uring_submit_and_wait, (io_uring * ring, unsigned count), (ring, count))
#undef FAILING

int __real_fallocate(int fd, int mode, off_t at, off_t size);
int __wrap_fallocate(int fd, int mode, off_t at, off_t size) {
  const bool injected = fails();
  if (!injected && !mvm::monitor::no_holes) return __real_fallocate(fd, mode, at, size);
  errno = injected ? error_to_give.load() : EOPNOTSUPP;
  return -1;
}

int __real_io_uring_submit(io_uring* ring);
int __wrap_io_uring_submit(io_uring* ring) {
  if (fails()) return -error_to_give;
  const int result = __real_io_uring_submit(ring);
  io_uring_cqe* entry = nullptr;
  if (completions_to_fail > 0 && result > 0 && io_uring_wait_cqe(ring, &entry) == 0) {
    --completions_to_fail;
    entry->res = -error_to_give;
  }
  return result;
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
