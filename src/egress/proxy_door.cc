#include "proxy_door.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "hello_peek.h"
#include "scratch.h"

namespace mvm::egress {
namespace {

constexpr std::string_view kConnect = "CONNECT ";
constexpr size_t kOnce = 16 * 1024;

// What was looked at is taken: as much as is in the socket, so that it is taken whole.
void drop(int socket, size_t bytes) noexcept {
  if (bytes > 0) static_cast<void>(::recv(socket, nullptr, bytes, MSG_TRUNC));
}

}

ProxyDoor::ProxyDoor(loop::Loop& loop, sys::Fd socket, std::chrono::milliseconds patience,
                     Done done)
    : socket_(std::move(socket)),
      done_(std::move(done)),
      watch_(loop.watch(socket_.get(), EPOLLIN | EPOLLRDHUP,
                        [this](uint32_t events) { look(events); })),
      deadline_(loop.after(patience, [this] {
        refuse(What::TimedOut, 408, "timed_out", "the request's head did not come in time");
      })) {}

sys::Fd ProxyDoor::take_socket() {
  watch_.reset();
  return std::move(socket_);
}

void ProxyDoor::look(uint32_t events) {
  MVM_UNCLEARED std::array<std::byte, kOnce> buffer;
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return finish({});
  const ByteView data = ByteView(buffer).first(static_cast<size_t>(got));
  if (!connect_ && !is_connect(data)) {
    // Half the word, and nothing more to come, is no request either.
    if (data.size() < kConnect.size() && as_text(data) == kConnect.substr(0, data.size()) &&
        (events & EPOLLRDHUP) == 0)
      return wake_at(socket_.get(), kConnect.size());
    wake_at_once(socket_.get());
    return finish({What::Requests, {}, {}, {}});
  }
  read_head(data);
}

bool ProxyDoor::is_connect(ByteView data) {
  if (!as_text(data).starts_with(kConnect)) return false;
  wake_at_once(socket_.get());
  return connect_ = true;
}

void ProxyDoor::read_head(ByteView data) {
  ByteView rest = data;
  const http::Event event = parser_.next(rest);
  drop(socket_.get(), data.size() - rest.size());
  switch (event.kind) {
    case http::EventKind::More:
      return;
    case http::EventKind::Head:
      return finish({What::Tunnel, {}, *parser_.target().authority, {}});
    default:
      return refuse(What::Malformed, http::fault_status(event.fault), "bad_request",
                    http::fault_text(event.fault));
  }
}

void ProxyDoor::refuse(What what, unsigned status, std::string reason, std::string_view message) {
  Result result;
  result.what = what;
  result.refusal.status = status;
  result.refusal.reason = std::move(reason);
  result.refusal.message = message;
  finish(std::move(result));
}

void ProxyDoor::finish(Result result) {
  deadline_.reset();
  result.socket = take_socket();
  const Done done = std::move(done_);
  done(std::move(result));
}

}
