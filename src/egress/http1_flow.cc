#include "http1_flow.h"

#include <algorithm>

#include "sockets.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using crypto::TlsPhase;
using policy::Reason;

constexpr size_t kOnce = 64 * 1024;
constexpr int kStepsPerTurn = 16;
constexpr auto kLastWords = 2s;
constexpr auto kRefill = 5ms;

}

Http1Flow::Http1Flow(Parts parts, uint64_t id, sys::Fd guest, HttpOrigin origin,
                     std::function<void(End)> done)
    : parts_(parts),
      id_(id),
      origin_(std::move(origin)),
      done_(std::move(done)),
      stage_(origin_.tls ? Stage::Handshake : Stage::Idle),
      guest_(origin_.tls
                 ? Channel(std::move(guest), crypto::TlsEngine(parts_.interception->guests()))
                 : Channel(std::move(guest))),
      last_use_(parts.loop.now()) {}

void Http1Flow::start() {
  if (stage_ == Stage::Handshake)
    deadline_ = parts_.loop.after(kHandshakePatience, [this] { end(Reason::TimedOut); });
  update();
}

// ---- moving bytes

void Http1Flow::turn() {
  if (stage_ == Stage::Ended) return;
  last_use_ = parts_.loop.now();
  bool moved = true;
  for (int i = 0; i < kStepsPerTurn && moved; ++i) {
    moved = step();
    if (stage_ == Stage::Ended) return;
    if (!guest_.flush()) return end(Reason::Allowed, "connection reset");
    if (upstream_ && !upstream_->channel.flush()) upstream_lost(Channel::State::Failed);
    if (stage_ == Stage::Ended) return;
    if (stage_ == Stage::Closing && guest_ended_ && guest_.unsent() == 0)
      return end(how_.reason, how_.detail);
  }
  update();
  // What is left may be here already, so that no socket tells of it.
  if (moved) later_ = parts_.loop.after(0ms, [this] { turn(); });
}

bool Http1Flow::step() {
  bool moved = read_guest();
  if (stage_ != Stage::Ended) moved = read_upstream() || moved;
  switch (stage_) {
    case Stage::Handshake:
      return handshake() || moved;
    case Stage::Idle:
    case Stage::Collecting:
    case Stage::Active: {
      moved = take_requests() || moved;
      if (stage_ == Stage::Active) moved = take_responses() || moved;
      return moved;
    }
    case Stage::Upgraded:
      return relay_upgraded() || moved;
    case Stage::Connecting:
      if (upstream_ && check_upstream() && stage_ == Stage::Active) return true;
      return moved;
    case Stage::Closing:
      input_.clear();
      return moved;
    case Stage::Ended:
      break;
  }
  return false;
}

size_t Http1Flow::allowance(Way way) {
  const size_t allowed = parts_.meter.allow(way, kOnce, parts_.loop.now());
  if (allowed > 0) return allowed;
  throttled_ = true;
  if (!refill_)
    refill_ = parts_.loop.after(kRefill, [this] {
      refill_.reset();
      throttled_ = false;
      turn();
    });
  return 0;
}

bool Http1Flow::read_guest() {
  const bool room = !upstream_ || upstream_->channel.unsent() < kMaxUnsent;
  if (guest_ended_ || !room || input_.size() >= kOnce || throttled_) return false;
  if (stage_ == Stage::Connecting || (stage_ == Stage::Active && request_done_)) return false;
  const size_t allowed = allowance(Way::Send);
  if (allowed == 0) return false;
  const uint64_t before = guest_.taken();
  const size_t had = input_.size();
  const auto state = guest_.receive(input_, allowed);
  parts_.meter.count(Way::Send, allowed, guest_.taken() - before);
  if (parts_.meter.used_up()) {
    end(Reason::ResourceExhausted, "the sandbox has used up its bytes");
    return false;
  }
  if (state == Channel::State::Failed) {
    static_cast<void>(guest_.flush());  // an alert says why
    end(Reason::Allowed, guest_.engine() != nullptr && guest_.engine()->phase() == TlsPhase::Failed
                             ? guest_.engine()->failure().text
                             : "connection reset");
    return false;
  }
  guest_ended_ = state == Channel::State::Ended;
  return guest_ended_ || input_.size() > had || guest_.taken() > before;
}

bool Http1Flow::read_upstream() {
  if (!upstream_ || upstream_->ended || throttled_) return false;
  Upstream& up = *upstream_;
  if (guest_.unsent() >= kMaxUnsent || up.input.size() >= kOnce) return false;
  const size_t allowed = allowance(Way::Receive);
  if (allowed == 0) return false;
  const uint64_t before = up.channel.taken();
  const size_t had = up.input.size();
  const auto state = up.channel.receive(up.input, allowed);
  parts_.meter.count(Way::Receive, allowed, up.channel.taken() - before);
  if (parts_.meter.used_up()) {
    end(Reason::ResourceExhausted, "the sandbox has used up its bytes");
    return false;
  }
  if (up.input.size() > had) up.answered = true;
  if (state == Channel::State::Open) return up.input.size() > had || up.channel.taken() > before;
  up.ended = true;
  // What came before the end is parsed first.
  if (stage_ == Stage::Active || stage_ == Stage::Upgraded) take_responses();
  if (upstream_ && upstream_.get() == &up && stage_ != Stage::Ended) upstream_lost(state);
  return true;
}

// ---- the guest's TLS

bool Http1Flow::handshake() {
  crypto::TlsEngine& engine = *guest_.engine();
  if (engine.phase() == TlsPhase::Hello) {
    const auto& offered = engine.hello().protocols;
    const bool http1 = std::ranges::find(offered, kHttp1) != offered.end();
    const auto leaf = parts_.interception->leaf(engine.hello().server_name);
    if (!leaf || (!offered.empty() && !http1))
      engine.refuse(leaf ? crypto::TlsAlert::NoApplicationProtocol
                         : crypto::TlsAlert::UnrecognizedName);
    else
      engine.accept(leaf, http1 ? kHttp1 : std::string_view());
    // What came behind the hello has waited.
    return true;
  }
  if (engine.phase() != TlsPhase::Open) return false;
  stage_ = Stage::Idle;
  deadline_.reset();
  return true;
}

// ---- endings

// Where the client can still be told, it is; in the middle of an answer only a reset says that it
// is not whole.
void Http1Flow::fail(Reason reason, const std::string& detail) {
  if (response_begun_ || stage_ == Stage::Upgraded) return end(reason, detail);
  how_ = {reason, detail};
  refuse(failure_of(origin_, reason, detail));
}

void Http1Flow::refuse(FilterRefusal refusal) {
  judged_.time = std::chrono::system_clock::now();
  judged_.outcome = policy::Outcome::Deny;
  judged_.reason = refusal.reason;
  judged_.audited = false;
  judged_.rule = std::move(refusal.rule);
  judged_.detail = std::move(refusal.detail);
  judged_.suggestion.clear();
  parts_.reporter.refuse(judged_);
  if (response_begun_) return end(refusal.reason);
  refuse(refusal.answer);
}

void Http1Flow::refuse(const http::Refusal& refusal) {
  deadline_.reset();
  filters_.end(false);
  guest_.send(http::encode_refusal(refusal, request_.method));
  close_guest();
}

void Http1Flow::close_guest() {
  stage_ = Stage::Closing;
  upstream_.reset();
  guest_.finish();
  deadline_ = parts_.loop.after(kLastWords, [this] { end(how_.reason, how_.detail); });
}

void Http1Flow::reset() noexcept {
  guest_watch_.reset();
  reset_connection(guest_.take_socket());
  if (!upstream_) return;
  upstream_->watch.reset();
  reset_connection(upstream_->channel.take_socket());
}

void Http1Flow::end(Reason reason, std::string detail) {
  if (stage_ == Stage::Ended) return;
  const bool clean = stage_ == Stage::Closing && guest_.unsent() == 0;
  const bool told_by_tls = stage_ == Stage::Handshake && guest_.unsent() == 0;
  stage_ = Stage::Ended;
  filters_.end(false);
  guest_watch_.reset();
  deadline_.reset();
  refill_.reset();
  if (upstream_) upstream_->watch.reset();
  if (!clean && !told_by_tls) reset();
  const auto done = std::move(done_);
  done({reason, std::move(detail)});
}

// ---- waiting

void Http1Flow::update() {
  const bool to_upstream = !upstream_ || upstream_->channel.unsent() < kMaxUnsent;
  const bool reads_guest = !guest_ended_ && to_upstream && !throttled_ &&
                           stage_ != Stage::Connecting && input_.size() < kOnce &&
                           !(stage_ == Stage::Active && request_done_);
  watch(guest_, guest_watch_, guest_interest_,
        (reads_guest ? EPOLLIN : 0U) | (guest_.wants_write() ? EPOLLOUT : 0U));
  bool again = reads_guest && guest_.holds_input();
  if (upstream_) {
    Upstream& up = *upstream_;
    const bool reads =
        !up.ended && !throttled_ && guest_.unsent() < kMaxUnsent && up.input.size() < kOnce;
    watch(up.channel, up.watch, up.interest,
          (reads ? EPOLLIN : 0U) | (up.channel.wants_write() ? EPOLLOUT : 0U));
    again = again || (reads && up.channel.holds_input());
  }
  if (again) later_ = parts_.loop.after(0ms, [this] { turn(); });
}

void Http1Flow::watch(Channel& channel, loop::Watch& watch, uint32_t& interest, uint32_t wanted) {
  if (!watch) {
    watch = parts_.loop.watch(channel.fd(), wanted, [this, &channel](uint32_t events) {
      const bool lost = (events & EPOLLERR) != 0 ||
                        ((events & EPOLLHUP) != 0 && (events & (EPOLLIN | EPOLLOUT)) == 0);
      if (!lost) return turn();
      if (&channel == &guest_) return end(how_.reason, "connection reset");
      upstream_->ended = true;
      upstream_lost(Channel::State::Failed);
      turn();
    });
  } else if (interest != wanted) {
    watch.set_events(wanted);
  }
  interest = wanted;
}

}
