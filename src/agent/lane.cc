#include "lane.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::agent {

// As much as a pipe of ours may hold; what it cannot be made to hold it need not.
static constexpr int kPipe = 1 << 20;
static_assert(kPipe <= proto::kMaxChunk);
// Small files share a write.
static constexpr size_t kGathered = 32 * 1024;
// One call, so that interrupts are seen however fast the other end reads.
static constexpr size_t kMostAtOnce = 8 << 20;

Lane::Lane(sys::Fd socket, TreeReader& reader) : socket_(std::move(socket)), reader_(&reader) {
  std::array<int, 2> ends{};
  sys::check(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), "making a pipe");
  pipe_out_ = sys::Fd(ends[0]);
  pipe_in_ = sys::Fd(ends[1]);
  const int room = ::fcntl(pipe_in_.get(), F_SETPIPE_SZ, kPipe);
  pipe_room_ = static_cast<size_t>(
      room > 0 ? room
               : sys::check(::fcntl(pipe_in_.get(), F_GETPIPE_SZ), "asking for a pipe's size"));
  pipe_room_ = std::min<size_t>(pipe_room_, kPipe);
  sys::set_nonblocking(socket_.get());
  // Fewer turns to and fro, as far as the host lets it be larger.
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kPipe, sizeof kPipe);
}

void Lane::fill() {
  head_.clear();
  head_sent_ = 0;
  if (reader_->at_large_file()) {
    in_pipe_ = reader_->produce_into_pipe(head_, pipe_in_.get(), pipe_room_);
    return;
  }
  while (head_.size() < kGathered && !reader_->at_large_file() && reader_->produce(head_)) {
  }
}

bool Lane::send_head() {
  const auto sent = sys::send_some(socket_.get(), ByteView(head_).subspan(head_sent_));
  head_sent_ += sent.value_or(0);
  return sent.has_value();
}

bool Lane::send_pipe() {
  while (true) {
    const ssize_t moved = ::splice(pipe_out_.get(), nullptr, socket_.get(), nullptr, in_pipe_,
                                   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EAGAIN) return false;
    if (moved <= 0) throw SystemError(moved < 0 ? errno : EIO, "sending to the sandbox");
    in_pipe_ -= static_cast<size_t>(moved);
    return true;
  }
}

Lane::Sent Lane::send() {
  const uint64_t until = reader_->counts().bytes + kMostAtOnce;
  try {
    while (reader_->counts().bytes < until) {
      if (head_sent_ < head_.size()) {
        if (!send_head()) return Sent::Some;
      } else if (in_pipe_ > 0) {
        if (!send_pipe()) return Sent::Some;
      } else {
        fill();
        if (head_.empty()) return Sent::All;
      }
    }
    return Sent::Some;
  } catch (const SystemError& error) {
    if (error.errno_value() != EPIPE && error.errno_value() != ECONNRESET) throw;
    return Sent::Lost;
  }
}

}
