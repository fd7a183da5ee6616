// Pipes of background jobs, which outlive the command that they were made for.
#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <unistd.h>

#include "mvm/base/scope_exit.h"

#include "exec.h"

namespace mvm::guest {

void Lingering::adopt(sys::Fd pipe) {
  if (pipes_.size() >= kMaxPipes) pipes_.pop_front();
  const int fd = pipe.get();
  const auto entry = pipes_.insert(pipes_.end(), Pipe{std::move(pipe), {}});
  // One that cannot be watched is closed: better a background job that cannot print than one that
  // stands still.
  ScopeExit undo([&] { pipes_.erase(entry); });
  entry->watch = loop_->watch(fd, EPOLLIN, [this, entry](uint32_t) {
    std::array<std::byte, 4096> dropped;
    const ssize_t got = ::read(entry->fd.get(), dropped.data(), dropped.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) pipes_.erase(entry);
  });
  undo.release();
}

}
