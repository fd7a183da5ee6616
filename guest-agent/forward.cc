#include "forward.h"

#include <algorithm>
#include <cerrno>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"

namespace mvm::guest {

using proto::FrameType;

Forward::Forward(loop::Loop& loop, Channel& channel, const proto::TcpRequest& request)
    : Stream(channel), loop_(&loop), port_(request.port) {
  connect(AF_INET);
}

// ---- the connection ---------------------------------------------------------------------------

void Forward::connect(int family) {
  family_ = family;
  watch_.reset();
  socket_ = sys::Fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) return fail(errno);  // a kernel without IPv6, say
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port_);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port_);
  v6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  // The socket calls take the generic type by contract.
  const int result =
      family == AF_INET
          ? ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4)
          : ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  if (result != 0 && errno != EINPROGRESS) return fail(errno);
  watch_ = loop_->watch(socket_.get(), EPOLLOUT, [this](uint32_t events) { on_ready(events); });
}

void Forward::fail(int error) {
  if (!connected_ && family_ == AF_INET && error == ECONNREFUSED) return connect(AF_INET6);
  watch_.reset();
  socket_.reset();
  const std::string why = sys::errno_text(error);
  if (connected_) {
    channel().fail(Kind::Unavailable,
                   "the connection to port " + std::to_string(port_) + ": " + why);
  } else {
    channel().fail(Kind::Unavailable, "nothing in the sandbox accepts connections on port " +
                                          std::to_string(port_) + " of its loopback: " + why);
  }
}

void Forward::on_connected() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(error);
  connected_ = true;
  channel().event(proto::encode_event(proto::kConnectedEvent));
  write();
}

void Forward::on_ready(uint32_t events) {
  if (!channel().is_open()) return;
  channel().guard([&] {
    if (!connected_) return on_connected();
    if ((events & EPOLLOUT) != 0) write();
    // A reset is met by reading; it is not waited for when there is no room to read.
    if (channel().is_open() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read();
  });
}

// ---- the two directions -----------------------------------------------------------------------

void Forward::read() {
  if (socket_ended_) return;
  const size_t room = std::min(channel().room(), buffer_.size());
  if (room > 0) {
    const ssize_t got = ::read(socket_.get(), buffer_.data(), room);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return fail(errno);
    if (got > 0) channel().bulk(FrameType::Data, ByteView(buffer_).first(static_cast<size_t>(got)));
    if (got == 0) {
      socket_ended_ = true;
      channel().eof();
    }
  }
  update();
}

void Forward::write() {
  while (begin_ < pending_.size()) {
    const ssize_t put =
        ::send(socket_.get(), pending_.data() + begin_, pending_.size() - begin_, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) return fail(errno);
    begin_ += static_cast<size_t>(put);
    channel().consumed(static_cast<size_t>(put));
  }
  if (begin_ == pending_.size()) {
    pending_.clear();
    begin_ = 0;
    if (host_ended_ && !shut_) {
      shut_ = true;
      ::shutdown(socket_.get(), SHUT_WR);
    }
  }
  update();
}

void Forward::update() {
  if (!channel().is_open() || !socket_) return;
  if (shut_ && socket_ended_) {
    watch_.reset();
    socket_.reset();
    return channel().end(proto::encode_ok());
  }
  const bool reads = !socket_ended_ && channel().room() > 0;
  const bool writes = begin_ < pending_.size();
  // With nothing to do the socket is not watched at all: epoll reports a hang-up unasked.
  if (!reads && !writes) return watch_.reset();
  const uint32_t events = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  if (watch_) {
    watch_.set_events(events);
  } else {
    watch_ = loop_->watch(socket_.get(), events, [this](uint32_t ready) { on_ready(ready); });
  }
}

void Forward::on_writable() {
  if (connected_) update();
}

void Forward::on_frame(const proto::Frame& frame) {
  switch (frame.type) {
    case FrameType::Data:
      if (host_ended_) throw Error(Kind::Invalid, "data after its end");
      Writer(pending_).bytes(frame.payload);
      if (connected_) write();
      return;
    case FrameType::Eof:
      host_ended_ = true;
      if (connected_) write();
      return;
    case FrameType::Cancel: {
      const linger reset{1, 0};
      ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      watch_.reset();
      socket_.reset();
      return channel().fail(Kind::Unavailable, "cancelled");
    }
    default:
      return;
  }
}

}
