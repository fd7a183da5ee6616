// How a connection ends, and what is told of that.
#include "flow.h"
#include "sockets.h"

namespace mvm::egress {

using policy::Outcome;
using policy::Reason;

void Flow::reset(Reason reason, std::string detail) {
  if (stage_ == Stage::Ended) return;
  if (relay_) relay_->reset();
  if (http_) http_->reset();
  if (http_) told_ = true;
  end(reason, std::move(detail));
}

size_t Flow::held() const noexcept { return memory_of(sockets()) + (http_ ? http_->held() : 0); }

SocketPair Flow::sockets() const noexcept {
  if (relay_) return relay_->sockets();
  if (http_) return http_->sockets();
  if (last_words_) return {last_words_->fd(), -1};
  if (door_) return {door_->fd(), -1};
  return {guest_.get(), upstream_.get()};
}

std::array<sys::Fd, 2> Flow::take_sockets() noexcept {
  if (relay_) return relay_->take_sockets();
  if (http_) return http_->take_sockets();
  if (last_words_) return {last_words_->take_socket(), sys::Fd()};
  return {std::move(guest_), std::move(upstream_)};
}

void Flow::end_if_idle() {
  const Timeouts& limits = parts_.timeouts;
  if (stage_ == Stage::Http && parts_.loop.now() - http_->last_use() > limits.http_idle)
    return reset(Reason::TimedOut);
  if (stage_ != Stage::Relaying) return;
  const auto limit = relay_->half_closed() ? limits.half_closed : limits.idle;
  if (parts_.loop.now() - relay_->last_use() > limit) reset(Reason::TimedOut);
}

void Flow::end(Reason reason, std::string detail) {
  if (stage_ == Stage::Ended) return;
  question_.reset();
  destination_.reset();
  if (door_) guest_ = door_->take_socket();
  const bool judged = stage_ != Stage::LastWords && stage_ != Stage::Asking &&
                      stage_ != Stage::Door && stage_ != Stage::Finding;
  if (!told_ && judged) tell_opened();
  if (told_) tell_end(reason, std::move(detail));
  if (guest_) reset_connection(std::move(guest_));
  if (upstream_) reset_connection(std::move(upstream_));
  finish();
}

// It was admitted as far as it came.
void Flow::tell_opened() {
  const Verdict verdict = parts_.judge.ask(request());
  Event opened = Judge::describe(EventKind::Connect, request(), verdict);
  opened.flow = id_;
  ++parts_.counters.flows;
  static_cast<void>(parts_.reporter.tell(opened));  // it is over
  told_ = true;
}

void Flow::tell_end(Reason reason, std::string detail) {
  Event event;
  event.time = std::chrono::system_clock::now();
  event.kind = EventKind::End;
  event.flow = id_;
  if (host_) event.host = host_->text();
  event.address = to_.address;
  event.port = to_.port;
  event.outcome = Outcome::Allow;
  event.reason = reason;
  event.detail = std::move(detail);
  if (relay_) event.sent = relay_->sent();
  if (relay_) event.received = relay_->received();
  if (http_) event.sent = http_->sent();
  if (http_) event.received = http_->received();
  static_cast<void>(parts_.reporter.tell(event));
}

void Flow::finish() {
  stage_ = Stage::Ended;
  watch_.reset();
  server_watch_.reset();
  deadline_.reset();
  const auto ended = std::move(ended_);
  ended();
}

}
