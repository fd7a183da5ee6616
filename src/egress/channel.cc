#include "channel.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "scratch.h"

namespace mvm::egress {
namespace {

using crypto::TlsPhase;

constexpr size_t kOnce = 64 * 1024;  // bytes of one read
// What is sent in pieces smaller than this becomes one record of TLS, a head and its body as a
// rule: each costs a microsecond or two here, and as much at the other end.
constexpr size_t kGathered = 8 * 1024;

}

Channel::State Channel::receive(Bytes& into, size_t limit) {
  if (engine_ && (!held_.empty() || engine_->holds_plaintext())) {
    const Bytes held = std::move(held_);
    held_.clear();
    return decrypt(held, into);
  }
  MVM_UNCLEARED std::array<std::byte, kOnce> buffer;
  const ssize_t got = ::recv(socket_.get(), buffer.data(), std::min(limit, buffer.size()), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? State::Open : State::Failed;
  taken_ += static_cast<uint64_t>(got);
  if (got == 0) {
    if (!engine_) return State::Ended;
    engine_->end_of_input();
    return engine_->peer_closed() ? State::Ended : State::Failed;
  }
  const ByteView data = ByteView(buffer).first(static_cast<size_t>(got));
  if (engine_) return decrypt(data, into);
  into.insert(into.end(), data.begin(), data.end());
  return State::Open;
}

Channel::State Channel::decrypt(ByteView input, Bytes& into) {
  MVM_UNCLEARED std::array<std::byte, kOnce> plain;
  while (true) {
    const size_t before = input.size();
    const size_t got = engine_->read(input, plain);
    into.insert(into.end(), plain.begin(), plain.begin() + static_cast<ptrdiff_t>(got));
    heard_ = heard_ || got > 0;
    if (engine_->phase() == TlsPhase::Failed) return State::Failed;
    if (engine_->peer_closed()) return State::Ended;
    if (got == 0 && input.size() == before) break;
  }
  held_.assign(input.begin(), input.end());
  return State::Open;
}

bool Channel::holds_input() const noexcept {
  return engine_ && (engine_->holds_plaintext() ||
                     (!held_.empty() && engine_->output().size() < crypto::kMaxOutput &&
                      engine_->phase() != TlsPhase::Hello));
}

// The engine takes nothing before its handshake is over, and only so much after.
void Channel::encrypt() {
  if (!engine_ || engine_->phase() != TlsPhase::Open) return;
  ByteView rest = ByteView(waiting_).subspan(waiting_at_);
  engine_->write(rest);
  waiting_at_ = waiting_.size() - rest.size();
  if (rest.empty()) {
    waiting_.clear();
    waiting_at_ = 0;
  }
}

void Channel::send(ByteView data) {
  if (engine_ && waiting_.empty() && data.size() >= kGathered) engine_->write(data);
  waiting_.insert(waiting_.end(), data.begin(), data.end());
  if (waiting_.size() - waiting_at_ >= kGathered) encrypt();
}

bool Channel::flush() {
  while (true) {
    encrypt();
    const ByteView output = engine_ ? engine_->output() : ByteView(waiting_).subspan(waiting_at_);
    if (output.empty()) break;
    const ssize_t sent = ::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    given_ += static_cast<uint64_t>(sent);
    if (engine_) {
      engine_->sent(static_cast<size_t>(sent));
      continue;
    }
    waiting_at_ += static_cast<size_t>(sent);
    if (waiting_at_ == waiting_.size()) {
      waiting_.clear();
      waiting_at_ = 0;
    }
  }
  if (!finishing_ || finished_ || unsent() > 0) return true;
  finished_ = true;
  if (engine_ && engine_->phase() == TlsPhase::Open) {
    engine_->close();
    const ByteView last = engine_->output();
    // A record of a few bytes, into a buffer that is empty.
    const ssize_t sent = ::send(socket_.get(), last.data(), last.size(), MSG_NOSIGNAL);
    if (sent > 0) engine_->sent(static_cast<size_t>(sent));
  }
  static_cast<void>(::shutdown(socket_.get(), SHUT_WR));
  return true;
}

size_t Channel::unsent() const noexcept {
  return waiting_.size() - waiting_at_ + (engine_ ? engine_->output().size() : 0);
}

void Channel::finish() { finishing_ = true; }

// TLS 1.3 has a server judge its client's certificate when the handshake is over for us, and its
// alert may be lost with the connection. One that has said anything has gone on without.
Channel::Lost Channel::how_lost() const {
  using policy::Reason;
  Lost lost{Reason::UpstreamUnreachable, "it closed the connection"};
  if (!engine_) return lost;
  const bool failed = engine_->phase() == TlsPhase::Failed;
  if (failed) lost.why = engine_->failure().text;
  if (failed && engine_->failure().fault == crypto::TlsFault::Alert)
    lost.reason = Reason::UpstreamTls;
  if (!engine_->asked_for_certificate() || heard_) return lost;
  lost.reason = Reason::UpstreamTls;
  lost.why +=
      "; it had asked for a client's certificate, which a connection that is looked into cannot "
      "show: one that is relayed (allow_hosts) can";
  return lost;
}

}
