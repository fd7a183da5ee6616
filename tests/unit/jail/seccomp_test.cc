// Filters are judged by what they do to a real child process.
#include "mvm/jail/seccomp.h"

#include <array>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace mvm::jail {

static const std::vector<Rule> kBasics = {
    {__NR_exit_group, "to end"},
    {__NR_exit, "to end a thread"},
    {__NR_fcntl, "only to read flags", {F_GETFD, F_GETFL}, 1},
    {__NR_close, "to close"},
    // What sanitizers and coverage do at exit.
    {__NR_futex, "run-time library"},
    {__NR_munmap, "run-time library"},
    {__NR_sigaltstack, "run-time library"},
};

// Runs `body` in a confined child; returns the wait status.
static int confined(Violation violation, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    forbid_new_privileges();
    confine_thread("confined", kBasics, violation);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(Seccomp, AllowsWhatIsListed) {
  const int status = confined(Violation::Kill, [] { return ::fcntl(0, F_GETFD) >= -1 ? 7 : 8; });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Seccomp, KillsForAnUnlistedCall) {
  const int status = confined(Violation::Kill, [] { return ::socket(AF_UNIX, SOCK_STREAM, 0); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

TEST(Seccomp, KillsForAnUnlistedArgument) {
  const int status = confined(Violation::Kill, [] { return ::fcntl(0, F_SETFD, 0); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

TEST(Seccomp, KillsForAnX32Number) {
  const int status = confined(
      Violation::Kill, [] { return static_cast<int>(::syscall(0x4000'0000 + __NR_close, 1000)); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSYS);
}

TEST(Seccomp, LogModeLetsTheCallPass) {
  const int status = confined(Violation::Log, [] { return ::getppid() > 0 ? 5 : 6; });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST(Seccomp, RuleAfterAnArgumentRuleStillSeesTheCallNumber) {
  const int status = confined(Violation::Kill, [] { return ::close(1000) == -1 ? 3 : 4; });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}
