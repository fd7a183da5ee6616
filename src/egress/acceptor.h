#pragma once
// Takes connections from a listener. Without descriptors left, the one kept in reserve is spent on
// taking the next connection and resetting it, so that nobody waits for nothing and the loop does
// not spin.

#include <functional>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

namespace mvm::egress {

class Acceptor {
 public:
  static constexpr int kPerTurn = 64;

  // Accepted sockets are non-blocking. `exhausted` is called for each connection that was reset for
  // want of descriptors; it may be empty.
  Acceptor(loop::Loop& loop, sys::Fd listener, std::function<void(sys::Fd)> accepted,
           std::function<void()> exhausted = {});

  void stop() { watch_.reset(); }

 private:
  void accept();
  bool turn_away();

  loop::Loop& loop_;
  sys::Fd listener_;
  std::function<void(sys::Fd)> accepted_;
  std::function<void()> exhausted_;
  sys::Fd reserve_;
  loop::Watch watch_;
  loop::Watch pause_;
};

}
