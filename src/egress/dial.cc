#include "dial.h"

#include <algorithm>
#include <cerrno>

#include "sockets.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;

constexpr auto kPace = 250ms;  // RFC 8305 §8

}

Dial::Dial(loop::Loop& loop, std::chrono::milliseconds patience, const Endpoint& first, Done done,
           NeedMore need_more)
    : loop_(loop),
      done_(std::move(done)),
      need_more_(std::move(need_more)),
      more_may_come_(static_cast<bool>(need_more_)),
      known_{first},
      pace_(loop.after(0ms, [this] { advance(); })),
      deadline_(
          loop.after(patience, [this] { finish({{}, {}, error_ != 0 ? error_ : ETIMEDOUT}); })) {}

void Dial::add(const Endpoint& endpoint) {
  if (known_.size() >= kMaxAttempts || std::ranges::find(known_, endpoint) != known_.end()) return;
  known_.push_back(endpoint);
  pace_ = loop_.after(0ms, [this] { advance(); });
}

void Dial::no_more() {
  more_may_come_ = false;
  if (under_way_ == 0) pace_ = loop_.after(0ms, [this] { advance(); });
}

// Begins the next attempt, or says that there is none left.
void Dial::advance() {
  while (next_ < known_.size())
    if (try_next()) {
      pace_ = loop_.after(kPace, [this] { advance(); });
      return;
    }
  if (need_more_) {
    const NeedMore ask = std::exchange(need_more_, {});
    ask();
  }
  fail_if_over();
}

bool Dial::try_next() {
  const Endpoint& peer = known_[next_++];
  auto socket = open_socket(peer.address, SOCK_STREAM);
  if (!socket) {
    error_ = errno;
    return false;
  }
  const SocketAddress to(peer);
  if (::connect(socket->get(), to.get(), to.length) != 0 && errno != EINPROGRESS) {
    error_ = errno;
    return false;
  }
  Attempt& attempt = attempts_.emplace_back(Attempt{std::move(*socket), peer, {}});
  attempt.watch =
      loop_.watch(attempt.socket.get(), EPOLLOUT, [this, &attempt](uint32_t) { handle(attempt); });
  ++under_way_;
  return true;
}

void Dial::handle(Attempt& attempt) {
  attempt.watch.reset();
  const int error = pending_error(attempt.socket.get());
  if (error == 0) return finish({std::move(attempt.socket), attempt.peer, 0});
  error_ = error;
  attempt.socket.reset();
  --under_way_;
  advance();
}

void Dial::fail_if_over() {
  if (under_way_ == 0 && !more_may_come_ && next_ >= known_.size())
    finish({{}, {}, error_ != 0 ? error_ : ETIMEDOUT});
}

void Dial::finish(Result result) {
  pace_.reset();
  deadline_.reset();
  attempts_.clear();
  const Done done = std::move(done_);
  done(std::move(result));
}

}
