#pragma once
// Collects every child that ends: the agent's own, and, because it is PID 1 (or a subreaper), every
// orphan of the sandbox.

#include <functional>
#include <unordered_map>

#include <sys/types.h>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/process.h"

namespace mvm::guest {

class Reaper {
 public:
  // Children collected in one turn: ten thousand that end at once must not keep the host waiting.
  static constexpr int kPerTurn = 128;

  // Blocks SIGCHLD for the process; children must unblock it (launch.cc does).
  explicit Reaper(loop::Loop& loop);

  // Calls `ended` once when this child ends. To be called in the turn that made the child.
  void expect(pid_t pid, std::function<void(sys::ExitStatus)> ended);
  void forget(pid_t pid) { expected_.erase(pid); }
  // Called after each batch of endings, whoever's children they were.
  void after_each(std::function<void()> observer) { observer_ = std::move(observer); }

 private:
  void collect();

  std::unordered_map<pid_t, std::function<void(sys::ExitStatus)>> expected_;
  std::function<void()> observer_;
  loop::Loop* loop_;
  sys::Fd signals_;
  loop::Watch watch_;
  loop::Watch more_;
};

}
