#include "pipe_pool.h"

#include <array>

#include <fcntl.h>
#include <unistd.h>

namespace mvm::egress {

std::optional<Pipe> PipePool::take() noexcept {
  if (!idle_.empty()) {
    Pipe pipe = std::move(idle_.back());
    idle_.pop_back();
    ++lent_;
    return pipe;
  }
  if (lent_ >= kMax) return std::nullopt;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{sys::Fd(ends[0]), sys::Fd(ends[1])};
  // A user with much in pipes already gets the smaller one, which does too.
  static_cast<void>(::fcntl(pipe.write.get(), F_SETPIPE_SZ, kCapacity));
  ++lent_;
  return pipe;
}

void PipePool::give_back(Pipe pipe, bool empty) noexcept {
  --lent_;
  constexpr size_t kIdle = 8;
  if (!empty || idle_.size() >= kIdle) return;
  idle_.reserve(kIdle);
  idle_.push_back(std::move(pipe));
}

}
