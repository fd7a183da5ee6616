#pragma once
// A connection to one of several addresses: the first is tried at once, the next when that one is
// slow or fails, and whichever connects first is taken (RFC 8305 §5, without the sorting).

#include <deque>
#include <functional>
#include <vector>

#include "mvm/egress/proxy.h"
#include "mvm/loop/loop.h"

namespace mvm::egress {

class Dial {
 public:
  static constexpr size_t kMaxAttempts = 8;

  // The socket, or the error of the attempt that failed last (ETIMEDOUT: none had ended). Called
  // once, never from the constructor or add(); the callee may drop the dial.
  struct Result {
    sys::Fd socket;
    Endpoint peer;
    int error = 0;
  };
  using Done = std::function<void(Result)>;
  // Called once, when what was given has failed or is slow: adds addresses, now or later, and then
  // calls no_more().
  using NeedMore = std::function<void()>;

  Dial(loop::Loop& loop, std::chrono::milliseconds patience, const Endpoint& first, Done done,
       NeedMore need_more = {});
  void add(const Endpoint& endpoint);
  void no_more();

 private:
  struct Attempt {
    sys::Fd socket;
    Endpoint peer;
    loop::Watch watch;
  };
  void advance();
  bool try_next();
  void handle(Attempt& attempt);
  void finish(Result result);
  void fail_if_over();

  loop::Loop& loop_;
  Done done_;
  NeedMore need_more_;
  bool more_may_come_ = false;
  std::vector<Endpoint> known_;
  size_t next_ = 0;  // of known_
  std::deque<Attempt> attempts_;
  size_t under_way_ = 0;
  int error_ = 0;
  loop::Watch pace_;
  loop::Watch deadline_;
};

}
