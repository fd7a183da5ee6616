#pragma once
// Tells a guest that hangs from one that is busy: the agent, a process like others there, is asked
// for a sign of life over its connection, and has a long time to give one. A guest whose vCPUs all
// spin with interrupts off, whose kernel is deadlocked or whose agent is stuck gives none.
//
// Time is the host's monotonic clock, which stands still while the host sleeps.

#include <chrono>
#include <functional>

#include "mvm/loop/loop.h"

#include "mux.h"

namespace mvm::sandbox {

class Watchdog {
 public:
  // `on_hung` is called once, when an answer is `limit` late; never when `limit` is zero.
  Watchdog(loop::Loop& loop, Mux& mux, std::chrono::milliseconds limit,
           std::function<void()> on_hung);

  void start();  // the agent serves
  void stop();

 private:
  void ask();

  loop::Loop* loop_;
  Mux* mux_;
  std::chrono::milliseconds limit_;
  std::function<void()> on_hung_;
  loop::Watch next_;      // when to ask again
  loop::Watch deadline_;  // of the answer that is owed
};

}
