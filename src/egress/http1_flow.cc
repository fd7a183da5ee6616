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

}

Http1Flow::Http1Flow(HttpParts parts, uint64_t id, OpenChannel guest,
                     std::optional<OpenChannel> upstream, HttpOrigin origin, Done done)
    : parts_(parts),
      id_(id),
      origin_(std::move(origin)),
      done_(std::move(done)),
      guest_(std::move(guest.channel)),
      input_(std::move(guest.input)),
      upstream_(upstream ? std::make_unique<Upstream>(std::move(*upstream)) : nullptr),
      reader_(parts.loop, parts.meter, [this] { turn(); }),
      last_use_(parts.loop.now()) {}

void Http1Flow::start() {
  update();
  // What came with the handshake waits already.
  if (!input_.empty()) later_ = parts_.loop.after(0ms, [this] { turn(); });
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
    if (stage_ == Stage::Active && request_done_) filters_.request_left();
    parts_.commit.after();
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
    case Stage::Idle:
    case Stage::Collecting:
    case Stage::Active: {
      moved = take_requests() || moved;
      pass_on_end();
      if (stage_ == Stage::Active) moved = take_responses() || moved;
      return moved;
    }
    case Stage::Upgraded:
      return relay_upgraded() || moved;
    case Stage::Asking:
      // Nobody is asked for a client that has gone.
      if (guest_ended_) {
        end(Reason::Allowed, "the client went before anybody had answered");
        return true;
      }
      if (!answer_) return moved;
      take_answer();
      return true;
    case Stage::Finding:
    case Stage::Connecting:
      return moved;
    case Stage::Closing:
      input_.clear();
      return moved;
    case Stage::Ended:
      break;
  }
  return false;
}

// Until something else has come the guest is not read on: unless it has ended, as what is there
// then is little, and its end is to be seen.
bool Http1Flow::waits() const noexcept {
  return !guest_leaves_ && (stage_ == Stage::Finding || stage_ == Stage::Connecting ||
                            stage_ == Stage::Asking || (stage_ == Stage::Active && request_done_));
}

// A client that goes before its answer: whether the answer is still wanted is the server's to
// judge, as it would be without us. Most stop working on it.
void Http1Flow::pass_on_end() {
  if (stage_ == Stage::Active && guest_ended_ && request_done_ && input_.empty())
    upstream_->channel.finish();
}

bool Http1Flow::read_guest() {
  const bool room = !upstream_ || upstream_->channel.unsent() < kMaxUnsent;
  if (guest_ended_ || !room || input_.size() >= kOnce) return false;
  if (waits()) return false;
  const auto read = reader_.receive(Way::Send, guest_, input_);
  if (read.used_up) {
    end(Reason::ResourceExhausted, "the sandbox has used up its bytes");
    return false;
  }
  if (read.state == Channel::State::Failed) {
    static_cast<void>(guest_.flush());  // an alert says why
    end(Reason::Allowed, guest_.engine() != nullptr && guest_.engine()->phase() == TlsPhase::Failed
                             ? guest_.engine()->failure().text
                             : "connection reset");
    return false;
  }
  guest_ended_ = read.state == Channel::State::Ended;
  return read.moved;
}

bool Http1Flow::read_upstream() {
  if (!upstream_ || upstream_->ended) return false;
  Upstream& up = *upstream_;
  if (guest_.unsent() >= kMaxUnsent || up.input.size() >= kOnce) return false;
  const size_t had = up.input.size();
  const auto read = reader_.receive(Way::Receive, up.channel, up.input);
  if (read.used_up) {
    end(Reason::ResourceExhausted, "the sandbox has used up its bytes");
    return false;
  }
  if (up.input.size() > had) up.answered = true;
  if (read.state == Channel::State::Open) return read.moved;
  up.ended = true;
  // What came before the end is parsed first.
  if (stage_ == Stage::Active || stage_ == Stage::Upgraded) take_responses();
  if (upstream_ && upstream_.get() == &up && stage_ != Stage::Ended) upstream_lost(read.state);
  return true;
}

size_t Http1Flow::held() const noexcept {
  const size_t bytes = guest_.unsent() + input_.size() + collected_.size() + given_.size();
  return upstream_ ? bytes + upstream_->channel.unsent() + upstream_->input.size() : bytes;
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

void Http1Flow::refuse_malformed(const http::Refusal& refusal) {
  judged_ = malformed_request(origin_, id_);
  parts_.reporter.refuse(judged_);
  refuse(refusal);
}

// A client that begins with HTTP/2 without having asked whether it is spoken (RFC 9113 §3.3) reads
// nothing else: an empty SETTINGS, and a GOAWAY that says why.
static constexpr std::string_view kNoHttp2(
    "\0\0\0\4\0\0\0\0\0"
    "\0\0\x30\7\0\0\0\0\0"
    "\0\0\0\0\0\0\0\xd"
    "mvm carries HTTP/2 over TLS, not without",
    9 + 9 + 48);

void Http1Flow::refuse_http2() {
  judged_ = malformed_request(origin_, id_, "HTTP/2 without TLS");
  parts_.reporter.refuse(judged_);
  guest_.send(kNoHttp2);
  close_guest();
}

void Http1Flow::refuse(const http::Refusal& refusal) {
  deadline_.reset();
  filters_.end(false);
  guest_.send(http::encode_refusal(refusal, request_.method));
  close_guest();
}

void Http1Flow::close_guest() {
  stage_ = Stage::Closing;
  drop_upstream();
  guest_.finish();
  deadline_ = parts_.loop.after(kLastWords, [this] { end(how_.reason, how_.detail); });
}

void Http1Flow::drop_upstream() {
  if (!upstream_) return;
  upstream_->watch.reset();
  parts_.partings.take(upstream_->channel.take_socket(), parts_.loop.now());
  upstream_.reset();
}

void Http1Flow::reset() noexcept {
  question_.reset();
  destination_.reset();
  guest_watch_.reset();
  reset_connection(guest_.take_socket());
  if (!upstream_) return;
  upstream_->watch.reset();
  reset_connection(upstream_->channel.take_socket());
}

void Http1Flow::end(Reason reason, std::string detail) {
  if (stage_ == Stage::Ended) return;
  const bool clean = stage_ == Stage::Closing && guest_.unsent() == 0;
  stage_ = Stage::Ended;
  question_.reset();
  destination_.reset();
  filters_.end(false);
  guest_watch_.reset();
  deadline_.reset();
  opening_.reset();
  if (upstream_) upstream_->watch.reset();
  if (!clean) reset();
  const auto done = std::move(done_);
  done({reason, std::move(detail)});
}

// ---- waiting

void Http1Flow::update() {
  const bool to_upstream = !upstream_ || upstream_->channel.unsent() < kMaxUnsent;
  const bool reads_guest =
      !guest_ended_ && to_upstream && !reader_.waits() && input_.size() < kOnce && !waits();
  watch(guest_, guest_watch_, guest_interest_,
        (reads_guest ? EPOLLIN : 0U) | (guest_.wants_write() ? EPOLLOUT : 0U) |
            (guest_leaves_ ? 0U : EPOLLRDHUP));
  bool again = reads_guest && guest_.holds_input();
  if (upstream_) {
    Upstream& up = *upstream_;
    const bool reads =
        !up.ended && !reader_.waits() && guest_.unsent() < kMaxUnsent && up.input.size() < kOnce;
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
      if (&channel == &guest_ && (events & EPOLLRDHUP) != 0) guest_leaves_ = true;
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
