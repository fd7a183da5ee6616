#include "process_tree.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::guest {

static constexpr size_t kMaxProcFile = size_t{256} * 1024;
// cgroup.procs of a fork bomb may be long; what does not fit is met in the next round.
static constexpr size_t kMaxMembers = 65536;
// Rounds of scan and kill before a tree that forks faster than we scan is given up on.
static constexpr int kMaxKillRounds = 200;

static std::string read_at(int directory, const std::string& name, size_t limit) {
  std::string text;
  const int raw =
      sys::uninterrupted([&] { return ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC); });
  if (raw < 0) return text;  // the process has gone meanwhile
  const sys::Fd fd(raw);
  std::array<char, 4096> piece;
  while (text.size() < limit) {
    const ssize_t got =
        sys::uninterrupted([&] { return ::read(fd.get(), piece.data(), piece.size()); });
    if (got <= 0) break;
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

// ---- trees by cgroup --------------------------------------------------------------------------

static std::vector<pid_t> cgroup_members(int directory) {
  std::vector<pid_t> members;
  const std::string text = read_at(directory, "cgroup.procs", kMaxProcFile);
  for (const auto line : split(text, '\n'))
    if (const auto pid = parse_u64(line); pid && *pid > 1 && members.size() < kMaxMembers)
      members.push_back(static_cast<pid_t>(*pid));
  return members;
}

// Commands may make cgroups below theirs; "populated" looks at all of them, and so does the kill.
// What cannot be read for want of memory or descriptors is taken for populated.
static bool is_populated(int directory) {
  return read_at(directory, "cgroup.events", kMaxProcFile).find("populated 0") == std::string::npos;
}

static bool write_kill(int directory) {
  const int raw =
      sys::uninterrupted([&] { return ::openat(directory, "cgroup.kill", O_WRONLY | O_CLOEXEC); });
  if (raw < 0) return false;  // Linux before 5.14
  const sys::Fd fd(raw);
  return ::write(fd.get(), "1", 1) == 1;
}

static void write_at(int directory, const char* name, const std::string& value) {
  const sys::Fd fd = sys::open_at(directory, name, O_WRONLY);
  sys::write_all(fd.get(), as_bytes(value));
}

// ---- trees by scan ----------------------------------------------------------------------------

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool zombie = false;
};

// /proc/PID/stat: pid (comm) state ppid pgrp session ... A name may hold anything, so fields count
// from its last parenthesis.
static std::optional<Process> read_process(int proc, pid_t pid) {
  const std::string stat = read_at(proc, std::to_string(pid) + "/stat", kMaxProcFile);
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size()) return std::nullopt;
  const auto fields = split(std::string_view(stat).substr(end + 2), ' ');
  if (fields.size() < 4) return std::nullopt;
  Process process;
  process.pid = pid;
  process.zombie = fields[0] == "Z" || fields[0] == "X";
  process.parent = static_cast<pid_t>(parse_u64(fields[1]).value_or(0));
  process.session = static_cast<pid_t>(parse_u64(fields[3]).value_or(0));
  return process;
}

static std::vector<Process> all_processes(int proc) {
  std::vector<Process> processes;
  sys::Fd copy(::fcntl(proc, F_DUPFD_CLOEXEC, 0));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), &::closedir);
  if (!stream) return processes;
  copy.release();
  ::rewinddir(stream.get());
  while (const dirent* entry = ::readdir(stream.get())) {
    const auto pid = parse_u64(entry->d_name);
    if (!pid) continue;
    if (auto process = read_process(proc, static_cast<pid_t>(*pid))) processes.push_back(*process);
  }
  return processes;
}

static bool carries(int proc, pid_t pid, const std::string& marker) {
  const std::string env = read_at(proc, std::to_string(pid) + "/environ", kMaxProcFile);
  const std::string nul("\0", 1);
  return (nul + env).find(nul + marker + nul) != std::string::npos;
}

static std::vector<pid_t> scan(pid_t root, const std::string& marker) {
  const sys::Fd proc = sys::open_file("/proc", O_RDONLY | O_DIRECTORY);
  const auto processes = all_processes(proc.get());
  std::set<pid_t> tree;
  for (const auto& process : processes)
    if (process.pid == root || process.session == root ||
        (!process.zombie && process.pid != ::getpid() && carries(proc.get(), process.pid, marker)))
      tree.insert(process.pid);
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& process : processes)
      if (tree.contains(process.parent)) grew |= tree.insert(process.pid).second;
  }
  std::vector<pid_t> alive;
  for (const auto& process : processes)
    if (!process.zombie && process.pid != ::getpid() && tree.contains(process.pid))
      alive.push_back(process.pid);
  return alive;
}

// ---- one tree ---------------------------------------------------------------------------------

std::vector<pid_t> ProcessTree::members() const {
  return directory_ ? cgroup_members(directory_.get()) : scan(root_, marker_);
}

bool ProcessTree::empty() const {
  return directory_ ? !is_populated(directory_.get()) : members().empty();
}

void ProcessTree::signal(int number) const {
  for (const pid_t pid : members()) ::kill(pid, number);
}

void ProcessTree::kill() const {
  if (directory_ && write_kill(directory_.get())) return;
  for (int round = 0; round < kMaxKillRounds; ++round) {
    try {
      const auto left = members();
      if (left.empty()) return;
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
    } catch (const SystemError&) {
      continue;  // memory or descriptors are short: the next round may find them
    }
  }
}

void ProcessTree::limit(const proto::TreeLimits& limits) {
  if (limits == proto::TreeLimits{}) return;
  if (!directory_)
    throw Error(Kind::Unsupported, "limits of memory, processes or CPU time need cgroups (v2)");
  const auto set = [&](const char* controller, const char* file, const std::string& value) {
    try {
      trees_->provide(controller);
      write_at(directory_.get(), file, value);
    } catch (const SystemError& error) {
      throw Error(Kind::Unsupported, std::string("the sandbox's kernel takes no limit of ") +
                                         controller + ": " + sys::errno_text(error.errno_value()));
    }
  };
  constexpr uint64_t kPeriod = 100'000;  // microseconds
  if (limits.memory > 0) set("memory", "memory.max", std::to_string(limits.memory));
  if (limits.processes > 0) set("pids", "pids.max", std::to_string(limits.processes));
  if (limits.cpu_millis > 0)
    set("cpu", "cpu.max",
        std::to_string(limits.cpu_millis * (kPeriod / 1000)) + " " + std::to_string(kPeriod));
}

uint64_t ProcessTree::memory_kills() const {
  if (!directory_) return 0;
  const std::string events = read_at(directory_.get(), "memory.events", kMaxProcFile);
  for (const auto line : split(events, '\n'))
    if (line.starts_with("oom_kill ")) return parse_u64(line.substr(9)).value_or(0);
  return 0;
}

ProcessTree::~ProcessTree() {
  if (!directory_) return;
  trees_->left_.push_back(std::move(name_));
  trees_->sweep();
}

// ---- all of them ------------------------------------------------------------------------------

// The directory, if it is in a cgroup v2 hierarchy where we may make groups.
static sys::Fd open_parent(const std::string& path) {
  if (path.empty()) return {};
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return {};
  sys::Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs status{};
  if (!fd || ::fstatfs(fd.get(), &status) != 0 || status.f_type != CGROUP2_SUPER_MAGIC) return {};
  if (::mkdirat(fd.get(), "probe", 0755) != 0) return {};
  ::unlinkat(fd.get(), "probe", AT_REMOVEDIR);
  return fd;
}

ProcessTrees::ProcessTrees(const std::string& parent, uint64_t processes)
    : parent_(open_parent(parent)), processes_(processes), run_(std::to_string(::getpid())) {
  if (processes_ == 0 || !parent_) return;
  try {
    provide("pids");
  } catch (const SystemError&) {
    processes_ = 0;  // a kernel without that controller: guard.cc has said so
  }
}

ProcessTrees::~ProcessTrees() { sweep(); }

std::unique_ptr<ProcessTree> ProcessTrees::make() {
  std::unique_ptr<ProcessTree> tree(new ProcessTree);
  tree->trees_ = this;
  tree->name_ = run_ + "-" + std::to_string(next_++);
  if (!parent_) {
    tree->marker_ = "MVM_COMMAND=" + tree->name_;
    return tree;
  }
  sys::check(::mkdirat(parent_.get(), tree->name_.c_str(), 0755), "making a cgroup");
  ScopeExit undo([&] { ::unlinkat(parent_.get(), tree->name_.c_str(), AT_REMOVEDIR); });
  tree->directory_ = sys::open_at(parent_.get(), tree->name_, O_RDONLY | O_DIRECTORY);
  undo.release();
  if (processes_ > 0) tree->limit({.processes = processes_});
  return tree;
}

// Controllers are given to the trees when one first needs them: a memory controller in each makes
// every command slower to start and to clear away.
void ProcessTrees::provide(const std::string& controller) {
  if (provided_.contains(controller)) return;
  write_at(parent_.get(), "cgroup.subtree_control", "+" + controller);
  provided_.insert(controller);
}

// Removes a cgroup and those that the command made below it.
static bool remove_group(int parent, const std::string& name, int depth) {
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  constexpr int kMaxDepth = 32;
  if (depth >= kMaxDepth) return false;
  sys::Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return false;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), &::closedir);
  if (!stream) return false;
  fd.release();
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string child = entry->d_name;
    if (entry->d_type == DT_DIR && child != "." && child != "..")
      remove_group(::dirfd(stream.get()), child, depth + 1);
  }
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0;
}

void ProcessTrees::sweep() {
  for (size_t tries = std::min(left_.size(), kSweptPerCall); tries > 0; --tries) {
    std::string name = std::move(left_.front());
    left_.pop_front();
    if (!remove_group(parent_.get(), name, 0)) left_.push_back(std::move(name));
  }
}

}
