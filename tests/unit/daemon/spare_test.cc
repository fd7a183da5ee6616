// The spare: the processes of a sandbox that nobody has asked for yet.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

namespace mvm::daemon {

// Of this process: a sandbox each, and the spare.
static std::set<int64_t> children() {
  std::set<int64_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (int64_t pid = 0; list >> pid;) found.insert(pid);
  }
  return found;
}

class Spare : public DaemonTest {
 protected:
  void start_with_spares(milliseconds life = std::chrono::minutes(1)) {
    auto with = options();
    with.spare = life;
    daemon_ = std::make_unique<Running>(std::move(with));
  }
  // Waits for it.
  int64_t spare() const {
    int64_t pid = 0;
    EXPECT_TRUE(eventually([&] { return (pid = client()->version().spare_pid) != 0; }));
    EXPECT_TRUE(children().contains(pid));
    return pid;
  }
  bool goes(int64_t pid) const {
    return eventually([&] { return !children().contains(pid); });
  }
};

TEST_F(Spare, NextSandboxIsMadeOfItAndAnotherComes) {
  start_with_spares();
  client()->create(spec("first"));
  const int64_t pid = spare();
  const auto second = client()->create(spec("second"));
  EXPECT_EQ(second.sandbox_pid, pid);
  EXPECT_EQ(second.state, SandboxState::Running);
  EXPECT_NE(spare(), pid);
  EXPECT_EQ(client()->stop("second", {}).state, SandboxState::Stopped);
  // One that is started again has its id already.
  const int64_t next = spare();
  EXPECT_NE(client()->start("second", {}).sandbox_pid, next);
  EXPECT_EQ(spare(), next);
}

TEST_F(Spare, ComesWhenASandboxOfOneCommandIsGone) {
  start_with_spares();
  auto ephemeral = spec("once", "quits");
  ephemeral.ephemeral = true;
  client()->create(ephemeral);
  ASSERT_TRUE(eventually([&] { return client()->sandboxes(true).empty(); }));
  const int64_t pid = spare();
  EXPECT_EQ(client()->create(spec("next")).sandbox_pid, pid);
}

TEST_F(Spare, IsNotForASandboxOfAnotherSize) {
  start_with_spares();
  client()->create(spec("first"));
  const int64_t pid = spare();
  auto larger = spec("larger");
  larger.memory *= 2;
  EXPECT_NE(client()->create(larger).sandbox_pid, pid);
  EXPECT_TRUE(goes(pid));
}

TEST_F(Spare, IsNotForAKernelThatHasChanged) {
  start_with_spares();
  client()->create(spec("first"));
  const int64_t pid = spare();
  std::ofstream(paths_.kernels_dir() + "/plain/vmlinux") << "another kernel, of the same name";
  EXPECT_NE(client()->create(spec("second")).sandbox_pid, pid);
  EXPECT_TRUE(goes(pid));
}

TEST_F(Spare, ThatWasKilledIsNoLoss) {
  start_with_spares();
  client()->create(spec("first"));
  const int64_t pid = spare();
  ASSERT_EQ(::kill(static_cast<pid_t>(pid), SIGKILL), 0);
  // Dead, and not merely about to be.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  const auto second = client()->create(spec("second"));
  EXPECT_NE(second.sandbox_pid, pid);
  EXPECT_EQ(second.state, SandboxState::Running);
}

TEST_F(Spare, StaysWhenARequestIsRefused) {
  start_with_spares();
  client()->create(spec("first"));
  const int64_t pid = spare();
  EXPECT_EQ(error_of([&] { client()->create(spec("first")); }).kind(), Kind::Conflict);
  EXPECT_EQ(client()->create(spec("second")).sandbox_pid, pid);
}

TEST_F(Spare, GoesAfterItsTime) {
  start_with_spares(std::chrono::seconds(2));
  client()->create(spec("first"));
  EXPECT_TRUE(goes(spare()));
}

TEST_F(Spare, ThatARefusedRequestHadGoesAfterItsTimeToo) {
  start_with_spares(std::chrono::seconds(2));
  client()->create(spec("first"));
  const int64_t pid = spare();
  // Taken and given back all the time in which it would have been ended.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2'500);
  while (std::chrono::steady_clock::now() < until)
    EXPECT_EQ(error_of([&] { client()->create(spec("first")); }).kind(), Kind::Conflict);
  EXPECT_TRUE(goes(pid));
}

TEST_F(Spare, GoesWithTheDaemon) {
  start_with_spares();
  client()->create(spec("first"));
  const int64_t pid = spare();
  daemon_.reset();
  EXPECT_FALSE(children().contains(pid));
}

}
