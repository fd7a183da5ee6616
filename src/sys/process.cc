#include "mvm/sys/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <tuple>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
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

// signal(7). sigabbrev_np(3) would know them, where the C library is glibc.
static constexpr std::pair<std::string_view, int> kSignals[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},       {"QUIT", SIGQUIT}, {"ILL", SIGILL},
    {"TRAP", SIGTRAP}, {"ABRT", SIGABRT},     {"BUS", SIGBUS},   {"FPE", SIGFPE},
    {"KILL", SIGKILL}, {"USR1", SIGUSR1},     {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
    {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},     {"TERM", SIGTERM}, {"STKFLT", SIGSTKFLT},
    {"CHLD", SIGCHLD}, {"CONT", SIGCONT},     {"STOP", SIGSTOP}, {"TSTP", SIGTSTP},
    {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},     {"URG", SIGURG},   {"XCPU", SIGXCPU},
    {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH},
    {"POLL", SIGPOLL}, {"PWR", SIGPWR},       {"SYS", SIGSYS}};

std::string ExitStatus::text() const {
  if (signal == 0) return "exit code " + std::to_string(code);
  for (const auto& [name, number] : kSignals)
    if (number == signal) return "killed by SIG" + std::string(name);
  return "killed by " + std::to_string(signal);
}

// Names, with those of the real-time signals counted from either end.
std::optional<int> signal_number(std::string_view name) {
  const int most = SIGRTMAX;
  if (const auto number = parse_u64(name))
    return *number >= 1 && *number <= static_cast<uint64_t>(most) ? std::optional<int>(*number)
                                                                  : std::nullopt;
  std::string upper(name);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (upper.starts_with("SIG")) upper.erase(0, 3);
  for (const auto& [base, begin, sign] :
       {std::tuple<std::string_view, int, char>{"RTMIN", SIGRTMIN, '+'},
        {"RTMAX", SIGRTMAX, '-'}}) {
    if (!upper.starts_with(base)) continue;
    const std::string_view rest = std::string_view(upper).substr(base.size());
    if (rest.empty()) return begin;
    const auto distance = rest.front() == sign ? parse_u64(rest.substr(1)) : std::nullopt;
    if (!distance || *distance > static_cast<uint64_t>(SIGRTMAX - SIGRTMIN)) return std::nullopt;
    return begin + (sign == '+' ? 1 : -1) * static_cast<int>(*distance);
  }
  for (const auto& [known, number] : kSignals)
    if (upper == known) return number;
  return std::nullopt;
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

// A new process, as fork makes it, in the namespaces and the cgroup asked for.
static Child clone_process(const SpawnOptions& options, const std::string& what) {
  if (options.namespaces == 0 && options.cgroup < 0) {
    const pid_t pid = check(::fork(), what);
    if (pid == 0) return Child();
    return Child(pid, Fd(static_cast<int>(check(::syscall(SYS_pidfd_open, pid, 0), what))));
  }
  // One call for all of it: every unshare of its own costs again.
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = options.namespaces | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<uintptr_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  if (options.cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(options.cgroup);
  }
  const long pid = check(::syscall(SYS_clone3, &arguments, sizeof arguments), what);
  if (pid == 0) return Child();
  return Child(static_cast<pid_t>(pid), Fd(pidfd));
}

// "1000 1000 1": the one id of a user namespace, under its own number.
static std::string own_id_map(unsigned id) {
  return std::to_string(id) + " " + std::to_string(id) + " 1";
}

// Async-signal-safe. Returns where it failed.
static int write_to(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int failure =
      ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
  ::close(fd);
  return failure;
}

// What is worked out before the fork: nothing allocates after it.
struct ChildPlan {
  std::vector<int> moved;  // the descriptors, above every target number
  pid_t parent = ::getpid();
  std::string users = own_id_map(::geteuid());
  std::string groups = own_id_map(::getegid());
};

// user_namespaces(7): groups may be mapped by an ordinary user once setgroups is refused.
static int map_own_ids(const ChildPlan& plan) {
  // What a process that cannot be dumped has in /proc is root's; this one is about to exec.
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (const int failure = write_to("/proc/self/setgroups", "deny")) return failure;
  if (const int failure = write_to("/proc/self/gid_map", plan.groups)) return failure;
  return write_to("/proc/self/uid_map", plan.users);
}

// Over the new user namespace we have every capability, and whoever is not root there loses them
// all with exec. These two stay (capabilities(7), "Ambient"): one changes mounts, the other is
// needed to give up the rest for good.
static int keep_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return errno;
  for (const int capability : {CAP_SYS_ADMIN, CAP_SETPCAP})
    sets.at(CAP_TO_INDEX(static_cast<size_t>(capability))).inheritable |=
        CAP_TO_MASK(static_cast<unsigned>(capability));
  if (::syscall(SYS_capset, &header, sets.data()) != 0) return errno;
  for (const int capability : {CAP_SYS_ADMIN, CAP_SETPCAP})
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0) return errno;
  return 0;
}

// Runs in the child between fork and exec: async-signal-safe calls only. Returns where it failed.
static int prepare_child(const SpawnOptions& options, const ChildPlan& plan) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  if ((options.namespaces & CLONE_NEWUSER) != 0) {
    if (const int failure = map_own_ids(plan)) return failure;
    if (const int failure = keep_capabilities()) return failure;
  }
  if (options.new_session && ::setsid() < 0) return errno;
  if (options.die_with_parent) {
    // After the ids: a change of credentials clears it.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
    // It went before we asked. In a pid namespace of our own the parent has no number (0): there
    // its end shows as the end of what it was to send us.
    const pid_t now = ::getppid();
    if (now != plan.parent && now != 0) ::_exit(127);
  }
  if (options.directory && ::chdir(options.directory->c_str()) != 0) return errno;
  for (size_t i = 0; i < plan.moved.size(); ++i)
    if (::dup2(plan.moved[i], options.fds[i].second) < 0) return errno;
  return 0;
}

Child spawn(const SpawnOptions& options) {
  MVM_ASSERT(!options.argv.empty());
  const auto argv = pointers(options.argv);
  const auto env = pointers(options.env);
  const std::string starting = "starting " + options.argv[0];

  // Move our descriptors above every target number first, so that no dup2 overwrites one still to
  // be moved.
  int highest = 2;
  for (const auto& [ours, theirs] : options.fds) highest = std::max(highest, theirs);
  std::vector<Fd> lifted;
  ChildPlan plan;
  for (const auto& [ours, theirs] : options.fds) {
    lifted.emplace_back(check(::fcntl(ours, F_DUPFD_CLOEXEC, highest + 1), "passing a descriptor"));
    plan.moved.push_back(lifted.back().get());
  }
  Fd program;
  if (options.program >= 0)
    program =
        Fd(check(::fcntl(options.program, F_DUPFD_CLOEXEC, highest + 1), "passing a program"));

  int pipe_ends[2];
  check(::pipe2(pipe_ends, O_CLOEXEC), "making a pipe");
  Fd report_read(pipe_ends[0]);
  Fd report_low(pipe_ends[1]);
  // Above the targets too: a target number must not overwrite it.
  Fd report_write(check(::fcntl(report_low.get(), F_DUPFD_CLOEXEC, highest + 1), "making a pipe"));
  report_low.reset();

  Child child = clone_process(options, starting);
  if (!child) {
    int failure = prepare_child(options, plan);
    if (failure == 0) {
      // What was not asked for stays behind; all ours are CLOEXEC, this catches what libraries
      // opened.
      ::syscall(SYS_close_range, static_cast<unsigned>(highest + 1), ~0U, CLOSE_RANGE_CLOEXEC);
      if (program)
        ::syscall(SYS_execveat, program.get(), "", argv.data(), env.data(), AT_EMPTY_PATH);
      else
        ::execve(argv[0], argv.data(), env.data());
      failure = errno;
    }
    static_cast<void>(!::write(report_write.get(), &failure, sizeof failure));
    ::_exit(127);
  }
  report_write.reset();
  int failure = 0;
  ssize_t got = -1;
  while ((got = ::read(report_read.get(), &failure, sizeof failure)) < 0 && errno == EINTR) {
  }
  if (got == static_cast<ssize_t>(sizeof failure)) {
    child.wait();
    throw SystemError(failure, starting);
  }
  return child;
}

std::optional<std::string> try_in_child(const SpawnOptions& options,
                                        const std::function<void()>& body) {
  const ChildPlan plan;
  int pipe_ends[2];
  check(::pipe2(pipe_ends, O_CLOEXEC), "making a pipe");
  const Fd report_read(pipe_ends[0]);
  Fd report_write(pipe_ends[1]);
  Child child = clone_process(options, "starting a process");
  if (!child) {
    std::string said = "ok";
    try {
      if (const int failure = prepare_child(options, plan))
        throw SystemError(failure, "mapping user and group");
      body();
    } catch (const std::exception& error) {
      said = error.what();
    }
    static_cast<void>(!::write(report_write.get(), said.data(), said.size()));
    ::_exit(0);
  }
  report_write.reset();
  std::string said(1024, '\0');
  ssize_t got = -1;
  while ((got = ::read(report_read.get(), said.data(), said.size())) < 0 && errno == EINTR) {
  }
  child.wait();
  said.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (said == "ok") return std::nullopt;
  return said.empty() ? "it ended without a word" : said;
}

// Field 4 of /proc/PID/stat.
static std::optional<uint64_t> parent_of(const std::string& pid) {
  try {
    const std::string text = read_text_file("/proc/" + pid + "/stat", 4096);
    const size_t end = text.rfind(')');
    if (end == std::string::npos) return std::nullopt;
    const auto fields = split(std::string_view(text).substr(std::min(end + 2, text.size())), ' ');
    return fields.size() > 1 ? parse_u64(fields[1]) : std::nullopt;
  } catch (const SystemError&) {
    return std::nullopt;  // it has gone
  }
}

std::optional<pid_t> first_child_of(pid_t pid) {
  const std::string number = std::to_string(pid);
  std::optional<uint64_t> child;
  try {
    const std::string text =
        read_text_file("/proc/" + number + "/task/" + number + "/children", 64 * 1024);
    child = parse_u64(std::string_view(text).substr(0, text.find(' ')));
  } catch (const SystemError&) {
    // Kernels without CONFIG_PROC_CHILDREN: look at everybody.
    for (const std::string& name : list_directory("/proc"))
      if (const auto other = parse_u64(name);
          other && parent_of(name) == static_cast<uint64_t>(pid))
        child = other;
  }
  if (!child || *child == 0) return std::nullopt;
  return static_cast<pid_t>(*child);
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
  } catch (const SystemError& error) {
    if (error.errno_value() != ENOENT && error.errno_value() != ESRCH) throw;
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
