#pragma once
// Sockets of connections that are over, whose peers have not confirmed what they were sent last.
// The kernel would go on with them by itself, for minutes and megabytes each where a peer takes
// nothing, and they would be in nobody's books: so they are closed when it has arrived, and count
// until then.

#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

namespace mvm::egress {

class Partings {
 public:
  static constexpr size_t kMax = 256;  // descriptors
  // Closes it, now or when its peer has confirmed everything; or, where there are too many, another
  // by a reset.
  void take(sys::Fd socket, loop::Clock::time_point now);
  // Closes what has been confirmed, and resets what has not moved for a minute. What the kernel
  // holds for the others, in bytes.
  size_t settle(loop::Clock::time_point now);
  size_t drop() noexcept;  // resets all; what they held
  size_t size() const noexcept { return sockets_.size(); }

 private:
  struct Parting {
    sys::Fd socket;
    size_t owed;
    loop::Clock::time_point since;  // it is as much
  };
  std::vector<Parting> sockets_;
};

}
