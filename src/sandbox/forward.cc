#include "forward.h"

#include <array>
#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "mvm/proto/forward.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

using proto::FrameType;

Forward::Forward(loop::Loop& loop, Mux& mux, sys::Fd client, uint16_t port,
                 std::function<void()> on_end)
    : loop_(&loop), mux_(&mux), client_(std::move(client)), on_end_(std::move(on_end)) {
  const int on = 1;
  ::setsockopt(client_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  proto::TcpRequest request;
  request.port = port;
  stream_ =
      mux.open_stream(request.encode(),
                      {[this](const proto::Frame& frame) { on_frame(frame); }, [this] { update(); },
                       [this](const std::optional<proto::End>& end) { on_agent_end(end); }});
  if (stream_ == 0) {
    reset();
    return;
  }
  // Until the guest has accepted, only the client's end is of interest.
  update();
}

Forward::~Forward() {
  on_end_ = {};
  reset();
}

// ---- the two ends ---------------------------------------------------------------------------

void Forward::on_frame(const proto::Frame& frame) {
  if (!client_) return;
  switch (frame.type) {
    case FrameType::Event:
      connected_ = connected_ || proto::event_name(frame.payload) == proto::kConnectedEvent;
      return update();
    case FrameType::Data:
      if (guest_ended_ || !connected_) return reset();
      Writer(pending_).bytes(frame.payload);
      return write();
    case FrameType::Eof:
      guest_ended_ = true;
      return write();
    default:
      return;
  }
}

void Forward::on_agent_end(const std::optional<proto::End>& end) {
  stream_ = 0;
  if (!client_) return;
  if (!end || end->error || !connected_) return reset();
  agent_done_ = true;
  guest_ended_ = true;
  write();
}

void Forward::on_client_ready(uint32_t events) {
  // A reset is not waited for until there is room to read, or something to write.
  if ((events & EPOLLERR) != 0) return reset();
  if ((events & EPOLLOUT) != 0) write();
  hung_ = hung_ || (events & EPOLLHUP) != 0;
  if (client_ && (events & (EPOLLIN | EPOLLHUP)) != 0) read();
}

// ---- the two directions ---------------------------------------------------------------------

void Forward::read() {
  if (!connected_ || client_ended_ || stream_ == 0) return update();
  const size_t room = mux_->room(stream_);
  if (room == 0) return update();
  // Not cleared first (-ftrivial-auto-var-init), which costs as much as the read does.
  __attribute__((uninitialized)) std::array<std::byte, proto::kMaxPayload> buffer;
  std::optional<size_t> got;
  try {
    got = sys::read_some(client_.get(), std::span(buffer).first(std::min(room, buffer.size())));
  } catch (const Error&) {
    return reset();
  }
  if (got && *got > 0) mux_->send(stream_, FrameType::Data, ByteView(buffer).first(*got));
  if (got && *got == 0) {
    client_ended_ = true;
    mux_->send(stream_, FrameType::Eof);
  }
  update();
}

void Forward::write() {
  while (begin_ < pending_.size()) {
    std::optional<size_t> put;
    try {
      put = sys::send_some(client_.get(), ByteView(pending_).subspan(begin_));
    } catch (const Error&) {
      return reset();
    }
    if (!put) break;
    begin_ += *put;
    if (stream_ != 0) mux_->consumed(stream_, *put);
  }
  if (begin_ == pending_.size()) {
    pending_.clear();
    begin_ = 0;
    if (agent_done_) return close();
    if (guest_ended_ && !shut_) {
      shut_ = true;
      ::shutdown(client_.get(), SHUT_WR);
    }
  }
  update();
}

void Forward::update() {
  if (!client_) return;
  const bool reads = connected_ && !client_ended_ && stream_ != 0 && mux_->room(stream_) > 0;
  const bool writes = begin_ < pending_.size();
  // A connection that both sides have closed is reported without end: it is looked at when there is
  // something to do. One that is not is always watched, for a reset.
  if (!reads && !writes && (hung_ || (client_ended_ && shut_))) return watch_.reset();
  const uint32_t events = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  if (watch_) {
    watch_.set_events(events);
  } else {
    watch_ =
        loop_->watch(client_.get(), events, [this](uint32_t ready) { on_client_ready(ready); });
  }
}

// ---- the end --------------------------------------------------------------------------------

void Forward::reset() {
  if (!client_) return;
  const linger at_once{1, 0};
  ::setsockopt(client_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void Forward::close() {
  watch_.reset();
  client_.reset();
  if (stream_ != 0) mux_->drop_stream(std::exchange(stream_, 0));
  if (on_end_) loop_->post(std::exchange(on_end_, {}));
}

}
