#include "channel.h"

#include <algorithm>

#include <sys/epoll.h>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

// How much one turn takes from one peer before others have theirs.
static constexpr int kReadsPerTurn = 4;
// Payloads below this are cheaper copied than sent by themselves.
static constexpr size_t kDirect = 4096;

Channel::Channel(loop::Loop& loop, sys::Fd fd, Handlers handlers, Descriptors descriptors)
    : loop_(&loop),
      fd_(std::move(fd)),
      handlers_(std::move(handlers)),
      takes_descriptors_(descriptors == Descriptors::Taken),
      events_(EPOLLIN) {
  sys::set_nonblocking(fd_.get());
  watch_ = loop.watch(fd_.get(), events_, [this](uint32_t events) { on_ready(events); });
}

void Channel::send(uint32_t stream, proto::FrameType type, ByteView payload) {
  if (closed_ || closing_) return;
  // Bulk goes from the buffer it was read into to the socket, without a stop in ours.
  size_t sent = 0;
  const proto::FrameHead head = proto::frame_head(stream, type, payload.size());
  if (queued() == 0 && payload.size() >= kDirect) {
    try {
      sent = sys::send_some(fd_.get(), head, payload).value_or(0);
    } catch (const Error&) {
      return closed();
    }
    if (sent == head.size() + payload.size()) return;
  }
  Writer writer(out_);
  writer.bytes(ByteView(head).subspan(std::min(sent, head.size())));
  writer.bytes(payload.subspan(sent - std::min(sent, head.size())));
  flush();
}

void Channel::pause_reading(bool paused) {
  paused_ = paused;
  update_events();
  // What has been read already does not wait for the socket to be readable again.
  if (!paused_ && !closed_ && decoder_.pending() > 0)
    resume_ = loop_->after(std::chrono::milliseconds(0), [this] { deliver(); });
}

void Channel::close_when_sent() {
  closing_ = true;
  flush();
}

void Channel::abandon() noexcept {
  closed_ = true;
  watch_.reset();
  resume_.reset();
}

void Channel::on_ready(uint32_t events) {
  if (closed_) return;
  if ((events & EPOLLOUT) != 0) {
    flush();
    if (!closed_ && handlers_.on_sent) handlers_.on_sent();
  }
  if (closed_) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !paused_) {
    read_frames();
  } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    closed();  // paused or not: there is nobody to be read later
  }
}

// A handler may pause or abandon the channel, and then the rest waits, or is nobody's.
void Channel::deliver() {
  while (!paused_ && !closed_) {
    const auto frame = decoder_.next();
    if (!frame) break;
    // A client that was told goodbye may still talk; nobody listens.
    if (!closing_) handlers_.on_frame(*frame);
  }
  if (!closed_ && decoder_.fault()) closed();
}

void Channel::read_frames() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    deliver();  // the decoder has room only when it is drained
    if (paused_ || closed_) return;
    std::optional<size_t> got;
    try {
      got = takes_descriptors_ ? sys::receive_some(fd_.get(), decoder_.space(), passed_)
                               : sys::read_some(fd_.get(), decoder_.space());
    } catch (const Error&) {
      got = 0;
    }
    if (!got) return;
    if (*got == 0) return closed();
    decoder_.commit(*got);
  }
  deliver();
  // They come with their request; what nobody has asked for by now, nobody will.
  if (decoder_.pending() == 0) passed_.clear();
}

void Channel::flush() {
  while (!closed_ && sent_ < out_.size()) {
    std::optional<size_t> put;
    try {
      put = sys::send_some(fd_.get(), ByteView(out_).subspan(sent_));
    } catch (const Error&) {
      return closed();
    }
    if (!put) break;
    sent_ += *put;
  }
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
    if (closing_) return closed();
  } else if (sent_ > out_.size() / 2) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent_));
    sent_ = 0;
  }
  if (queued() > kMaxQueued) return closed();
  update_events();
}

void Channel::update_events() {
  if (closed_) return;
  const uint32_t wanted = (paused_ ? 0U : EPOLLIN) | (sent_ < out_.size() ? EPOLLOUT : 0U);
  if (wanted == events_) return;
  events_ = wanted;
  watch_.set_events(events_);
}

void Channel::closed() {
  if (closed_) return;
  abandon();
  handlers_.on_closed();
}

}
