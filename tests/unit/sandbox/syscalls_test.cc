// The list of the sandbox process, tried on a real child: a call that is not on it, or an argument
// that is not, ends the process.
#include "../../../src/sandbox/syscalls.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "mvm/sys/file.h"

#include "../../support/forbidden_calls.h"

namespace mvm::sandbox {

TEST(SandboxSyscalls, ForbiddenCallKills) {
  test::expect_forbidden(sandbox_syscalls(false), {"socket(AF_UNIX)"});
}

TEST(SandboxSyscalls, OnlyANetworkTakesSocketsToOtherMachines) {
  const auto dial = [](int family) {
    return [family] { ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0); };
  };
  test::expect_killed(sandbox_syscalls(false), "AF_INET", dial(AF_INET));
  test::expect_survived(sandbox_syscalls(true), "AF_INET", dial(AF_INET));
  test::expect_survived(sandbox_syscalls(true), "AF_INET6", dial(AF_INET6));
  test::expect_killed(sandbox_syscalls(true), "AF_PACKET", dial(AF_PACKET));
  test::expect_killed(sandbox_syscalls(true), "AF_NETLINK", dial(AF_NETLINK));
}

TEST(SandboxSyscalls, ANetworksSocketsSayWhatTheyHold) {
  const auto control = [](unsigned long request) {
    return [request] {
      int value = 0;
      ::ioctl(-1, request, &value);
    };
  };
  test::expect_survived(sandbox_syscalls(true), "what is held, and of whom", [] {
    std::array<uint32_t, 16> value{};
    socklen_t size = sizeof value;
    ::getsockopt(-1, SOL_SOCKET, SO_MEMINFO, value.data(), &size);
    ::getsockopt(-1, IPPROTO_TCP, TCP_INFO, value.data(), &size);
  });
  test::expect_survived(sandbox_syscalls(true), "SIOCOUTQ", control(SIOCOUTQ));
  test::expect_killed(sandbox_syscalls(true), "TIOCSTI", control(TIOCSTI));
  test::expect_killed(sandbox_syscalls(false), "SIOCOUTQ", control(SIOCOUTQ));
}

TEST(SandboxSyscalls, PublishedPortsNeedNoNetwork) {
  test::expect_survived(sandbox_syscalls(false), "what a connection is treated with", [] {
    const int on = 1;
    const linger at_once{1, 0};
    int value = 0;
    socklen_t size = sizeof value;
    ::accept4(-1, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    ::getsockopt(-1, SOL_SOCKET, SO_ACCEPTCONN, &value, &size);
    ::setsockopt(-1, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(-1, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::shutdown(-1, SHUT_WR);
  });
  test::expect_killed(sandbox_syscalls(false), "listen", [] { ::listen(-1, 1); });
  test::expect_killed(sandbox_syscalls(true), "bind", [] { ::bind(-1, nullptr, 0); });
}

TEST(SandboxSyscalls, FilesAreOpenedOnlyAnew) {
  for (const int flags : {O_RDONLY, O_RDWR, O_WRONLY, O_WRONLY | O_CREAT,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, O_PATH})
    test::expect_killed(sandbox_syscalls(false), "openat " + std::to_string(flags),
                        [flags] { ::syscall(__NR_openat, -1, "x", flags, 0600); });
  test::expect_survived(sandbox_syscalls(false), "openat of a new file", [] {
    ::syscall(__NR_openat, -1, "x", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
              0600);
  });
}

TEST(SandboxSyscalls, HistoryIsOutOfReach) {
  test::expect_survived(sandbox_syscalls(true), "openat of an audit file", [] {
    ::syscall(__NR_openat, -1, "x",
              O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
  });
  for (const auto& rules : {sandbox_syscalls(true), audit_syscalls()}) {
    test::expect_killed(rules, "lseek", [] { ::syscall(__NR_lseek, -1, 0, SEEK_SET); });
    test::expect_killed(rules, "ftruncate", [] { ::syscall(__NR_ftruncate, -1, 0); });
    test::expect_killed(rules, "pwrite64", [] { ::syscall(__NR_pwrite64, -1, nullptr, 0, 0); });
  }
}

TEST(AuditSyscalls, ForbiddenCallKills) { test::expect_forbidden(audit_syscalls(), {}); }

// How a child ends that waits, with a limit, under `rules`, and is stopped and continued meanwhile.
static int status_after_a_stop(std::vector<jail::Rule> rules) {
  rules.push_back({SYS_exit_group, "how the child ends here"});
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    jail::forbid_new_privileges();
    jail::confine_thread("confined", rules);
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    static_cast<void>(!::write(ends[1], "x", 1));
    while (std::chrono::steady_clock::now() < until) never.wait_until(lock, until);
    ::syscall(SYS_exit_group, 7);
  }
  char ready = 0;
  EXPECT_EQ(::read(ends[0], &ready, 1), 1);
  // It sleeps in its wait before the stop: only then is there something to go on with.
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  std::string seen;
  do {
    ::sched_yield();
    seen = sys::read_text_file(stat, 4096);
  } while (seen.find(") S ") == std::string::npos && seen.find(") Z ") == std::string::npos);
  int status = 0;
  ::kill(child, SIGSTOP);
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  ::kill(child, SIGCONT);
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ::close(ends[0]);
  ::close(ends[1]);
  return status;
}

// Stopped by a signal, frozen by its cgroup, looked at by a debugger: the kernel makes another call
// of a wait that has a limit.
TEST(AuditSyscalls, AWaitGoesOnAfterTheProcessWasStopped) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its own threads' calls are on no list of ours";
#endif
  auto rules = audit_syscalls();
  const int status = status_after_a_stop(rules);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  std::erase_if(rules, [](const jail::Rule& rule) { return rule.number == SYS_restart_syscall; });
  const int without = status_after_a_stop(rules);
  EXPECT_TRUE(WIFSIGNALED(without) && WTERMSIG(without) == SIGSYS) << without;
}

}
