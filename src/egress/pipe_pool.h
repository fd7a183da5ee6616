#pragma once
// Pipes for splice(2), lent while bytes are in them. A flow that is idle, or whose peer keeps up,
// holds none: so ten thousand flows need a handful of pipes.

#include <optional>
#include <utility>
#include <vector>

#include "mvm/sys/fd.h"

namespace mvm::egress {

struct Pipe {
  sys::Fd read;
  sys::Fd write;
};

class PipePool {
 public:
  // At a time. An ordinary user may have 64 MiB in pipes (/proc/sys/fs/pipe-user-pages-soft).
  static constexpr size_t kMax = 128;
  static constexpr int kCapacity = 256 * 1024;  // bytes

  // An empty pipe; nothing when all are lent, or there are no descriptors left.
  std::optional<Pipe> take() noexcept;
  // A pipe that is not empty is closed.
  void give_back(Pipe pipe, bool empty) noexcept;

 private:
  std::vector<Pipe> idle_;
  size_t lent_ = 0;
};

}
