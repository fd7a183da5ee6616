#pragma once
// All processes that came of one command, so that a time-out or a cancel ends every one of them:
// also those that forked twice, started a session of their own or lost their parent.
//
// Theory of operation. Each command gets a cgroup of its own, and is born in it (clone3,
// CLONE_INTO_CGROUP): nothing it starts can leave without privileges over the hierarchy, and
// cgroup.kill ends all of it at once, forks in flight included. A sandbox whose root plays with its
// own cgroups can move processes out; that is its own loss, for what is at stake is tidiness, not
// the boundary. Where there is no cgroup v2 (a kernel without, or a test as an ordinary user), the
// tree is what a scan of /proc finds: descendants of the command, members of its session, and
// processes that carry the marker variable in their environment. A fork bomb can outrun a scan, so
// this is second best, and it is not used where the first can be had.
//
// A tree that is let go of while processes live (background jobs that outlive their command) keeps
// its cgroup until the last of them has ended; ProcessTrees::sweep() removes it then.

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "mvm/proto/exec.h"
#include "mvm/sys/fd.h"

namespace mvm::guest {

class ProcessTrees;

class ProcessTree {
 public:
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  // Where the command is to be born; -1 where there are no cgroups.
  int cgroup() const { return directory_.get(); }
  // "NAME=value" that the command's environment must carry; empty where cgroups do the work.
  const std::string& marker() const { return marker_; }
  void set_root(pid_t pid) { root_ = pid; }

  // To be called before the command is born. Error{Unsupported} where the kernel or this host of
  // the agent has no such limits.
  void limit(const proto::TreeLimits& limits);
  // Processes of it that the kernel ended for its memory limit.
  uint64_t memory_kills() const;

  bool empty() const;             // no process of it is alive
  void signal(int number) const;  // to each process
  void kill() const;              // SIGKILL, until none is left

 private:
  friend class ProcessTrees;
  ProcessTree() = default;
  std::vector<pid_t> members() const;

  ProcessTrees* trees_ = nullptr;
  std::string name_;
  sys::Fd directory_;
  std::string marker_;
  pid_t root_ = -1;
};

class ProcessTrees {
 public:
  // `parent` is a cgroup v2 directory under which one is made for each command; it is made itself
  // if need be. Empty, or unusable: scans of /proc.
  // `processes` bounds each tree that brings no limit of its own, so that a fork bomb leaves room
  // for other commands; 0: no bound.
  explicit ProcessTrees(const std::string& parent, uint64_t processes = 0);
  ~ProcessTrees();

  std::unique_ptr<ProcessTree> make();
  // Removes cgroups of trees that were let go of and have emptied since, looking at a few in each
  // call. For after each reaping.
  void sweep();
  bool uses_cgroups() const { return static_cast<bool>(parent_); }
  size_t remaining() const { return left_.size(); }

 private:
  friend class ProcessTree;
  static constexpr size_t kSweptPerCall = 32;
  void provide(const std::string& controller);

  sys::Fd parent_;
  uint64_t processes_;
  std::set<std::string> provided_;  // controllers that the trees have
  uint64_t next_ = 1;
  std::string run_;               // tells this agent's cgroups and markers from another's
  std::deque<std::string> left_;  // cgroups of trees let go of
};

}
