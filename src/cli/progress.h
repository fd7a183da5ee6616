#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "mvm/cli/context.h"

namespace mvm::cli {

// Tells somebody at a terminal that something takes its time: from the first second on, a line
// with the seconds so far. Gone when it ends.
class Waiting {
 public:
  Waiting(Console& console, std::string what, bool quiet);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void show();

  Console& console_;
  std::string what_;
  std::mutex mutex_;  // guards done_
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}
