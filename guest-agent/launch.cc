#include "launch.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

static void set(Environment& env, std::string_view name, std::string_view value) {
  const auto found =
      std::find_if(env.begin(), env.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != env.end()) {
    found->second = value;
  } else {
    env.emplace_back(name, value);
  }
}

Environment make_environment(const proto::ExecRequest& request, const Identity& identity,
                             const Environment& common) {
  Environment env;
  if (!request.clear_env) {
    env = common;
    env.emplace_back("PATH", kDefaultPath);
    env.emplace_back("HOME", identity.home);
    env.emplace_back("SHELL", identity.shell);
    if (!identity.name.empty()) {
      env.emplace_back("USER", identity.name);
      env.emplace_back("LOGNAME", identity.name);
    }
    if (request.tty) env.emplace_back("TERM", "xterm");
  }
  for (const auto& [name, value] : request.env) set(env, name, value);
  return env;
}

std::vector<std::string> candidates(const std::string& command, const Environment& env) {
  if (command.find('/') != std::string::npos) return {command};
  std::string_view path = kDefaultPath;
  for (const auto& [name, value] : env)
    if (name == "PATH") path = value;
  std::vector<std::string> files;
  for (const auto directory : split(path, ':')) {
    if (files.size() >= kMaxPathEntries) break;
    // POSIX: an empty entry is the current directory.
    files.push_back(directory.empty() ? "./" + command : std::string(directory) + "/" + command);
  }
  return files;
}

// ---- in the child -----------------------------------------------------------------------------

enum class Stage : int { Setup, Limit, User, Directory, Interpreter, Exec };

struct Failure {
  Stage stage = Stage::Setup;
  int error = 0;
  int resource = 0;  // with Limit
};

// Everything the child needs, ready before the fork: it may only make async-signal-safe calls.
struct Prepared {
  std::vector<std::string> files;
  std::vector<std::string> env_text;
  std::vector<const char*> file_pointers;
  std::vector<char*> argv;
  std::vector<char*> env;
};

static Failure child_setup(const Launch& what) {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  // A session of its own: signals reach the command's group and nothing else.
  if (::setsid() < 0) return {Stage::Setup, errno};
  for (int i = 0; i < 3; ++i)
    if (::dup2(what.standard[static_cast<size_t>(i)], i) < 0) return {Stage::Setup, errno};
  if (what.request.tty && ::ioctl(0, TIOCSCTTY, 0) != 0) return {Stage::Setup, errno};
  // The agent itself must survive the guest's memory shortage; what it runs must not count on that.
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) static_cast<void>(!::write(score, "0", 1));
  // Descriptors 3 and up are all CLOEXEC; this makes certain.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  ::umask(022);
  if (::setrlimit(RLIMIT_NOFILE, &what.open_files) != 0) return {Stage::Setup, errno};
  static_assert(sizeof(rlim_t) == sizeof(uint64_t) && RLIM_INFINITY == proto::kUnlimited);
  // Before the switch: root may raise what the user may not.
  for (const auto& wanted : what.request.rlimits) {
    const rlimit value{wanted.soft, wanted.hard};
    if (::setrlimit(wanted.resource, &value) != 0) return {Stage::Limit, errno, wanted.resource};
  }
  if (what.switch_user) {
    const Identity& who = what.identity;
    if (::setgroups(who.groups.size(), who.groups.data()) != 0) return {Stage::User, errno};
    if (::setresgid(who.gid, who.gid, who.gid) != 0) return {Stage::User, errno};
    if (::setresuid(who.uid, who.uid, who.uid) != 0) return {Stage::User, errno};
  }
  // After the switch, so that the user's own rights decide.
  const char* const directory = what.request.cwd.empty() ? "/" : what.request.cwd.c_str();
  if (::chdir(directory) != 0) return {Stage::Directory, errno};
  return {};
}

// As execvp(3) looks, except that a file without a known format is not handed to a shell.
static Failure child_exec(const Prepared& prepared) {
  Failure failure{Stage::Exec, ENOENT};
  for (const char* file : prepared.file_pointers) {
    ::execve(file, prepared.argv.data(), prepared.env.data());
    const int error = errno;
    // The file is there and still "not found": it is its interpreter or loader that is missing.
    if (error == ENOENT && ::access(file, F_OK) == 0) return {Stage::Interpreter, ENOENT};
    if (error == EACCES) {
      failure.error = EACCES;  // go on looking, but do not call it "not found" in the end
    } else if (error != ENOENT && error != ENOTDIR) {
      return {Stage::Exec, error};
    }
  }
  return failure;
}

// ---- in the agent -----------------------------------------------------------------------------

static Prepared prepare(const Launch& what) {
  Prepared prepared;
  const Environment env = make_environment(what.request, what.identity, what.common);
  prepared.files = candidates(what.request.argv[0], env);
  for (const auto& [name, value] : env) {
    prepared.env_text.push_back(name);
    prepared.env_text.back().append("=").append(value);
  }
  if (!what.tree.marker().empty()) prepared.env_text.push_back(what.tree.marker());
  for (const auto& file : prepared.files) prepared.file_pointers.push_back(file.c_str());
  // execve takes char* for history's sake and does not write.
  for (const auto& argument : what.request.argv)
    prepared.argv.push_back(const_cast<char*>(argument.c_str()));
  prepared.argv.push_back(nullptr);
  for (const auto& text : prepared.env_text)
    prepared.env.push_back(const_cast<char*>(text.c_str()));
  prepared.env.push_back(nullptr);
  return prepared;
}

// fork(2), into the tree's cgroup where it has one: born there, the child has no moment outside.
static pid_t fork_into(const ProcessTree& tree) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (tree.cgroup() >= 0) {
    args.flags = CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(tree.cgroup());
  }
  // The agent has one thread, so the C library has no lock that a raw clone could leave held.
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid < 0 && errno == ENOSYS && tree.cgroup() < 0)
    return sys::check(::fork(), "starting a process");
  return static_cast<pid_t>(sys::check(pid, "starting a process"));
}

Launched launch(const Launch& what) {
  const Prepared prepared = prepare(what);
  std::array<int, 2> ends{};
  sys::check(::pipe2(ends.data(), O_CLOEXEC), "making a pipe");
  sys::Fd report_read(ends[0]);
  const sys::Fd report_write(ends[1]);
  const pid_t pid = fork_into(what.tree);
  if (pid == 0) {
    // The report's end must not be one of 0 to 2, which are about to be replaced; the agent keeps
    // those open, so a new descriptor never is.
    Failure failure = child_setup(what);
    if (failure.error == 0) failure = child_exec(prepared);
    static_cast<void>(!::write(report_write.get(), &failure, sizeof failure));
    ::_exit(127);
  }
  sys::set_nonblocking(report_read.get());
  return {pid, std::move(report_read)};
}

std::optional<proto::ErrorReply> read_failure(int report, const proto::ExecRequest& request) {
  Failure failure;
  const ssize_t got = ::read(report, &failure, sizeof failure);
  if (got != static_cast<ssize_t>(sizeof failure)) return std::nullopt;
  const std::string command = printable(request.argv[0]);
  const std::string why = sys::errno_text(failure.error);
  switch (failure.stage) {
    case Stage::Setup:
      return proto::ErrorReply{Kind::Internal, "preparing " + command + ": " + why};
    case Stage::Limit:
      return proto::ErrorReply{
          Kind::Invalid,
          "limit " +
              std::string(proto::kRlimitNames.at(static_cast<size_t>(failure.resource) %
                                                 proto::kRlimitNames.size())) +
              ": " + why + " (the sandbox's kernel sets the most that it may be)"};
    case Stage::User:
      return proto::ErrorReply{Kind::Denied,
                               "switching to user " + printable(request.user) + ": " + why};
    case Stage::Directory:
      return proto::ErrorReply{Kind::Invalid,
                               "working directory " + printable(request.cwd) + ": " + why};
    case Stage::Interpreter:
      return proto::ErrorReply{Kind::NotFound,
                               command + ": the interpreter or loader it names does not exist"};
    case Stage::Exec:
      break;
  }
  if (failure.error == ENOENT || failure.error == ENOTDIR)
    return proto::ErrorReply{Kind::NotFound, command + ": command not found"};
  if (failure.error == ENOEXEC)
    return proto::ErrorReply{Kind::Denied,
                             command + ": not a program, and it has no #! line (no shell is used)"};
  if (failure.error == E2BIG)
    return proto::ErrorReply{Kind::Invalid, command + ": arguments and environment are too large"};
  return proto::ErrorReply{Kind::Denied, command + ": " + why};
}

}
