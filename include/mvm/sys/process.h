#pragma once
// Children by pidfd: spawn, wait, signal.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "mvm/sys/fd.h"

namespace mvm::sys {

struct ExitStatus {
  int code = 0;    // when signal is 0
  int signal = 0;  // the signal that ended it
  bool operator==(const ExitStatus&) const = default;
  std::string text() const;  // "exit code 3", "killed by SIGKILL"
};

struct SpawnOptions {
  std::vector<std::string> argv;         // argv[0] is the file to run
  int program = -1;                      // or this is: open, and borrowed
  std::vector<std::string> env;          // "NAME=value"
  std::vector<std::pair<int, int>> fds;  // {ours, number in the child}; everything else is closed
  bool new_session = false;              // setsid
  bool die_with_parent = false;          // PR_SET_PDEATHSIG SIGKILL
  std::optional<std::string> directory;  // chdir
  // CLONE_NEW…: the namespaces it starts in. With CLONE_NEWUSER, our own user and group are the
  // only ones that the new user namespace knows, under their own numbers; the program keeps
  // CAP_SYS_ADMIN and CAP_SETPCAP over it, which it must give up itself.
  uint64_t namespaces = 0;
  int cgroup = -1;  // an open cgroup v2 directory to start in; borrowed
};

class Child {
 public:
  Child() = default;
  Child(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable when it has ended
  explicit operator bool() const { return static_cast<bool>(pidfd_); }
  void signal(int number) const;  // an ended child is fine
  // Blocks until it ends, or until the time is over (nothing).
  std::optional<ExitStatus> wait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

 private:
  pid_t pid_ = -1;
  Fd pidfd_;
};

// clone3 with a pidfd, then exec. Throws SystemError when the program cannot be started.
Child spawn(const SpawnOptions& options);

// Forks as `options` say, without an exec, runs `body` in the child and waits for its end. Nothing
// when body returned, else what it threw. For a process without other threads.
std::optional<std::string> try_in_child(const SpawnOptions& options,
                                        const std::function<void()>& body);

// The first child of a process, as our pid namespace numbers it; nothing when it has none, or has
// gone.
std::optional<pid_t> first_child_of(pid_t pid);

// A process that may not be our child: pidfd_open. Nothing when there is none.
std::optional<Fd> open_process(pid_t pid);
// Field 22 of /proc/PID/stat: tells a reused pid from the process we knew. Nothing when there is
// none.
std::optional<uint64_t> process_start_time(pid_t pid);
void signal_process(int pidfd, int number);  // ESRCH is fine
// "SIGQUIT", "quit", "3", "SIGRTMIN+3": a signal's number (signal(7)); nothing when it is none.
std::optional<int> signal_number(std::string_view name);

std::string own_executable();  // /proc/self/exe, resolved

}
