#pragma once
// A list of permitted calls, judged by what it does to a real child process.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/jail/seccomp.h"

namespace mvm::test {

// The wait status of a child that makes `call` under `rules`.
inline int status_after(std::vector<jail::Rule> rules, const std::function<void()>& call) {
  rules.push_back({SYS_exit_group, "how the child ends here"});
  const pid_t child = ::fork();
  if (child == 0) {
    jail::forbid_new_privileges();
    jail::confine_thread("confined", rules);
    call();
    // Not _exit(): what a sanitizer does first is on no list.
    ::syscall(SYS_exit_group, 7);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

inline void expect_killed(const std::vector<jail::Rule>& rules, const std::string& what,
                          const std::function<void()>& call) {
  const int status = status_after(rules, call);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << what << " passes: " << status;
}

inline void expect_survived(const std::vector<jail::Rule>& rules, const std::string& what,
                            const std::function<void()>& call) {
  const int status = status_after(rules, call);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << what << " kills: " << status;
}

// What code that has taken over a thread would try next. `but` names those that the thread's list
// is meant to have.
inline void expect_forbidden(const std::vector<jail::Rule>& rules,
                             const std::set<std::string>& but) {
  struct Call {
    const char* name;
    std::function<void()> make;
  };
  const auto call = [](auto... arguments) { return [=] { ::syscall(arguments...); }; };
  void* const nowhere = nullptr;
  const std::vector<Call> calls = {
      {"open", call(__NR_open, "/etc/passwd", O_RDONLY)},
      {"openat", call(__NR_openat, AT_FDCWD, "/etc/passwd", O_RDONLY)},
      {"openat2", call(__NR_openat2, AT_FDCWD, "/etc/passwd", nowhere, 0)},
      {"execve", call(__NR_execve, "/bin/true", nowhere, nowhere)},
      {"execveat", call(__NR_execveat, 0, "", nowhere, nowhere, AT_EMPTY_PATH)},
      {"fork", call(__NR_fork)},
      {"clone", call(__NR_clone, SIGCHLD, nowhere, nowhere, nowhere, 0)},
      {"clone3", call(__NR_clone3, nowhere, 0)},
      {"ptrace", call(__NR_ptrace, 0, 0, nowhere, nowhere)},
      {"process_vm_readv", call(__NR_process_vm_readv, 1, nowhere, 0, nowhere, 0, 0)},
      {"kill", call(__NR_kill, 1, 0)},
      {"mount", call(__NR_mount, nowhere, "/", nowhere, 0, nowhere)},
      {"unshare", call(__NR_unshare, CLONE_NEWUSER)},
      {"setns", call(__NR_setns, 0, 0)},
      {"chroot", call(__NR_chroot, "/")},
      {"chdir", call(__NR_chdir, "/")},
      {"bpf", call(__NR_bpf, 0, nowhere, 0)},
      {"userfaultfd", call(__NR_userfaultfd, 0)},
      {"perf_event_open", call(__NR_perf_event_open, nowhere, 0, 0, -1, 0)},
      {"prctl", call(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)},
      {"setrlimit", call(__NR_setrlimit, 0, nowhere)},
      {"socket(AF_INET)", call(__NR_socket, AF_INET, SOCK_STREAM, 0)},
      {"socket(AF_NETLINK)", call(__NR_socket, AF_NETLINK, SOCK_RAW, 0)},
      {"socket(AF_VSOCK)", call(__NR_socket, AF_VSOCK, SOCK_STREAM, 0)},
      {"socket(AF_UNIX)", call(__NR_socket, AF_UNIX, SOCK_STREAM, 0)},
      {"bind", call(__NR_bind, 0, nowhere, 0)},
      {"ioctl(TIOCSTI)", call(__NR_ioctl, 0, TIOCSTI, nowhere)},
      {"ioctl(KVM_CREATE_VM)", call(__NR_ioctl, 0, 0xae01, 0)},
      {"fcntl(F_SETOWN)", call(__NR_fcntl, 0, F_SETOWN, 1)},
      {"memory that runs (mmap)",
       call(__NR_mmap, nowhere, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)},
      {"memory that runs (mprotect)", call(__NR_mprotect, nowhere, 4096, PROT_READ | PROT_EXEC)},
      {"madvise(MADV_MERGEABLE)", call(__NR_madvise, nowhere, 4096, MADV_MERGEABLE)},
      {"rt_sigaction", call(__NR_rt_sigaction, SIGSYS, nowhere, nowhere, 8)},
      {"memfd_create", call(__NR_memfd_create, "x", 0)},
      {"io_uring_setup", call(__NR_io_uring_setup, 1, nowhere)},
  };
  for (const Call& each : calls)
    if (!but.contains(each.name)) expect_killed(rules, each.name, each.make);
}

}
