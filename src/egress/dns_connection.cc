#include "dns_connection.h"

#include <array>
#include <cerrno>

namespace mvm::egress {
namespace {

constexpr std::chrono::seconds kIdle{15};

}

DnsService::Connection::Connection(loop::Loop& loop, sys::Fd socket,
                                   std::function<void(ByteView)> serve, std::function<void()> end)
    : loop_(loop),
      socket_(std::move(socket)),
      serve_(std::move(serve)),
      end_(std::move(end)),
      watch_(loop.watch(socket_.get(), EPOLLIN, [this](uint32_t events) { handle(events); })) {
  rearm();
}

void DnsService::Connection::rearm() {
  idle_ = loop_.after(kIdle, [this] { end_(); });
}

void DnsService::Connection::handle(uint32_t events) {
  const bool lost = (events & EPOLLERR) != 0 || ((events & EPOLLIN) != 0 && !receive()) ||
                    ((events & EPOLLOUT) != 0 && !flush());
  if (lost || (client_done_ && to_send_.empty())) {
    const auto end = std::move(end_);
    return end();
  }
  watch_.set_events((client_done_ ? 0U : EPOLLIN) | (to_send_.empty() ? 0U : EPOLLOUT));
}

bool DnsService::Connection::receive() {
  std::array<std::byte, 4096> buffer;
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  client_done_ = got == 0;
  const ByteView part = ByteView(buffer).first(static_cast<size_t>(got));
  received_.insert(received_.end(), part.begin(), part.end());
  rearm();
  serve_whole();
  return true;
}

void DnsService::Connection::serve_whole() {
  size_t served = 0;
  while (true) {
    Reader in(ByteView(received_).subspan(served));
    const uint16_t length = in.u16be();
    const ByteView message = in.bytes(length);
    if (!in) break;
    served += 2U + length;
    // Answers add to what is to be sent, and touch nothing else of this connection.
    serve_(message);
  }
  received_.erase(received_.begin(), received_.begin() + static_cast<ptrdiff_t>(served));
}

void DnsService::Connection::send(ByteView message) {
  if (to_send_.size() + 2 + message.size() > kMaxUnsent) return;
  Writer out(to_send_);
  out.u16be(static_cast<uint16_t>(message.size()));
  out.bytes(message);
  watch_.set_events((client_done_ ? 0U : EPOLLIN) | EPOLLOUT);
}

bool DnsService::Connection::flush() {
  const ssize_t sent = ::send(socket_.get(), to_send_.data(), to_send_.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  to_send_.erase(to_send_.begin(), to_send_.begin() + sent);
  return true;
}

}
