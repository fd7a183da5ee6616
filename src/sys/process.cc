#include "mvm/sys/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::sys {

std::string ExitStatus::text() const {
  if (signal == 0) return "exit code " + std::to_string(code);
  const char* name = ::sigabbrev_np(signal);
  return "killed by " + (name != nullptr ? "SIG" + std::string(name) : std::to_string(signal));
}

void Child::signal(int number) const { signal_process(pidfd_.get(), number); }

std::optional<ExitStatus> Child::wait(std::optional<std::chrono::milliseconds> timeout) {
  if (timeout) {
    pollfd entry{pidfd_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(timeout->count()));
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for a process");
    if (ready <= 0) return std::nullopt;
  }
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0)
    if (errno != EINTR) throw SystemError(errno, "waiting for a process");
  pidfd_.reset();
  if (info.si_code == CLD_EXITED) return ExitStatus{info.si_status, 0};
  return ExitStatus{0, info.si_status};
}

static std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  // execve takes char* for history's sake and does not write.
  for (const auto& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// Runs in the child between fork and exec: async-signal-safe calls only. Returns where it failed.
static int prepare_child(const SpawnOptions& options, std::span<const int> moved, pid_t parent) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  if (options.new_session && ::setsid() < 0) return errno;
  if (options.die_with_parent) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
    if (::getppid() != parent) ::_exit(127);  // it went before we asked
  }
  if (options.directory && ::chdir(options.directory->c_str()) != 0) return errno;
  for (size_t i = 0; i < moved.size(); ++i)
    if (::dup2(moved[i], options.fds[i].second) < 0) return errno;
  return 0;
}

Child spawn(const SpawnOptions& options) {
  MVM_ASSERT(!options.argv.empty());
  const auto argv = pointers(options.argv);
  const auto env = pointers(options.env);

  // Move our descriptors above every target number first, so that no dup2 overwrites one still to
  // be moved.
  int highest = 2;
  for (const auto& [ours, theirs] : options.fds) highest = std::max(highest, theirs);
  std::vector<Fd> lifted;
  std::vector<int> moved;
  for (const auto& [ours, theirs] : options.fds) {
    lifted.emplace_back(check(::fcntl(ours, F_DUPFD_CLOEXEC, highest + 1), "passing a descriptor"));
    moved.push_back(lifted.back().get());
  }

  int pipe_ends[2];
  check(::pipe2(pipe_ends, O_CLOEXEC), "making a pipe");
  Fd report_read(pipe_ends[0]);
  // Above the targets too: a target number must not overwrite it.
  Fd report_write(check(::fcntl(pipe_ends[1], F_DUPFD_CLOEXEC, highest + 1), "making a pipe"));
  ::close(pipe_ends[1]);

  const pid_t parent = ::getpid();
  const pid_t pid = check(::fork(), "starting " + options.argv[0]);
  if (pid == 0) {
    int failure = prepare_child(options, moved, parent);
    if (failure == 0) {
      // What was not asked for stays behind; all ours are CLOEXEC, this catches what libraries
      // opened.
      ::syscall(SYS_close_range, static_cast<unsigned>(highest + 1), ~0U, CLOSE_RANGE_CLOEXEC);
      ::execve(argv[0], argv.data(), env.data());
      failure = errno;
    }
    static_cast<void>(!::write(report_write.get(), &failure, sizeof failure));
    ::_exit(127);
  }
  report_write.reset();
  Child child(pid,
              Fd(static_cast<int>(check(::syscall(SYS_pidfd_open, pid, 0), "opening a process"))));
  int failure = 0;
  ssize_t got = -1;
  while ((got = ::read(report_read.get(), &failure, sizeof failure)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof failure)) {
    child.wait();
    throw SystemError(failure, "starting " + options.argv[0]);
  }
  return child;
}

std::optional<Fd> open_process(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) return Fd(static_cast<int>(fd));
  if (errno == ESRCH || errno == EINVAL) return std::nullopt;
  throw SystemError(errno, "opening process " + std::to_string(pid));
}

std::optional<uint64_t> process_start_time(pid_t pid) {
  std::string text;
  try {
    text = read_text_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  } catch (const SystemError&) {
    return std::nullopt;
  }
  // The command name may hold spaces and parentheses; fields count from behind its last one.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const auto fields = split(std::string_view(text).substr(std::min(end + 2, text.size())), ' ');
  constexpr size_t kStartTime = 22 - 3;  // the first field after the name is number 3
  if (fields.size() <= kStartTime) return std::nullopt;
  return parse_u64(fields[kStartTime]);
}

void signal_process(int pidfd, int number) {
  if (::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0) != 0 && errno != ESRCH)
    throw SystemError(errno, "signalling a process");
}

std::string own_executable() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  check(static_cast<long>(length), "finding our own executable");
  path.resize(static_cast<size_t>(length));
  return path;
}

}
