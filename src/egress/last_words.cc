#include "last_words.h"

#include <cerrno>

#include <sys/socket.h>

namespace mvm::egress {
namespace {

constexpr std::chrono::seconds kPatience{2};
constexpr size_t kMaxDiscarded = 1 << 20;  // bytes

}

LastWords::LastWords(loop::Loop& loop, sys::Fd socket, std::string message,
                     std::function<void()> done)
    : socket_(std::move(socket)),
      message_(std::move(message)),
      done_(std::move(done)),
      watch_(loop.watch(socket_.get(), EPOLLIN | EPOLLOUT, [this](uint32_t) { handle(); })),
      deadline_(loop.after(kPatience, [this] { done_(); })) {}

void LastWords::send() {
  const ssize_t sent = ::send(socket_.get(), message_.data(), message_.size(), MSG_NOSIGNAL);
  if (sent > 0) message_.erase(0, static_cast<size_t>(sent));
  if (!message_.empty()) return;  // an error shows in what is read
  static_cast<void>(::shutdown(socket_.get(), SHUT_WR));
  said_ = true;
  watch_.set_events(EPOLLIN);
}

void LastWords::handle() {
  if (!said_) send();
  constexpr size_t kOnce = 64 * 1024;
  const ssize_t got = ::recv(socket_.get(), nullptr, kOnce, MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) discarded_ += static_cast<size_t>(got);
  // A client that has closed its side reads what is left all the same.
  if (got > 0 && discarded_ < kMaxDiscarded) return;
  if (got == 0 && !said_) return watch_.set_events(EPOLLOUT);
  watch_.reset();
  deadline_.reset();
  const auto done = std::move(done_);
  done();
}

std::string tls_alert(Alert alert) {
  // Type 21, version 1.2, two bytes: fatal, and which.
  return {'\x15', '\x03', '\x03', '\0', '\x02', '\x02', static_cast<char>(alert)};
}

}
