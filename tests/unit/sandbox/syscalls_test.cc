// The list of the sandbox process, tried on a real child: a call that is not on it, or an argument
// that is not, ends the process.
#include "../../../src/sandbox/syscalls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

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

}
