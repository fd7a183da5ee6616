#include "http1_flow.h"

#include <algorithm>

#include "mvm/http/forward.h"
#include "mvm/http/upgrade.h"
#include "mvm/sys/error.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using crypto::TlsPhase;
using policy::Reason;

constexpr size_t kMaxUnsent = 256 * 1024;  // to one side, before the other is read no further
constexpr size_t kOnce = 64 * 1024;
constexpr int kStepsPerTurn = 16;
constexpr auto kHandshakePatience = 15s;
constexpr auto kLastWords = 2s;
constexpr auto kRefill = 5ms;

constexpr std::string_view kHttp1 = "http/1.1";

void append_body(Channel& channel, const http::Framing& framing, ByteView body) {
  if (framing.kind != http::BodyKind::Chunked) return channel.send(body);
  std::string line;
  http::append_chunk_size(line, body.size());
  channel.send(line);
  channel.send(body);
  channel.send(http::kChunkEnd);
}

void append_end(Channel& channel, const http::Framing& framing, const http::Headers& trailers) {
  if (framing.kind != http::BodyKind::Chunked) return;
  http::Headers kept;
  for (const http::Header& trailer : trailers)
    if (http::is_trailer_field(trailer.name)) kept.push_back(trailer);
  std::string text;
  http::append_last_chunk(text, kept);
  channel.send(text);
}

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
  last_use_ = parts_.loop.now();
  for (int i = 0; i < kStepsPerTurn && stage_ != Stage::Ended; ++i) {
    const bool moved = step();
    if (stage_ == Stage::Ended) return;
    if (!guest_.flush()) return end(Reason::Allowed, "connection reset");
    if (upstream_ && !upstream_->channel.flush()) upstream_lost(Channel::State::Failed);
    if (stage_ == Stage::Closing && guest_ended_ && guest_.unsent() == 0)
      return end(how_.reason, how_.detail);
    if (!moved) break;
  }
  if (stage_ != Stage::Ended) update();
}

bool Http1Flow::step() {
  bool moved = read_guest();
  if (stage_ != Stage::Ended) moved = read_upstream() || moved;
  switch (stage_) {
    case Stage::Handshake:
      return handshake() || moved;
    case Stage::Idle:
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

// ---- requests

bool Http1Flow::take_requests() {
  if (stage_ == Stage::Active && request_done_) return false;
  ByteView rest(input_);
  bool moved = false;
  while (stage_ == Stage::Idle || (stage_ == Stage::Active && !request_done_)) {
    const bool idle = stage_ == Stage::Idle;
    auto event = requests_.next(rest);
    if (event.kind == http::EventKind::More && guest_ended_) event = requests_.end_of_input();
    if (event.kind == http::EventKind::More) break;
    moved = true;
    if (event.kind == http::EventKind::Bad) {
      if (event.fault == http::Fault::Truncated) {
        end(Reason::Allowed, "the client ended in the middle of a request");
        return true;
      }
      http::Refusal refusal;
      refusal.status = http::fault_status(event.fault);
      refusal.reason = "bad_request";
      refusal.message = http::fault_text(event.fault);
      refuse(refusal);
      break;
    }
    if (idle && event.kind == http::EventKind::End) {  // of the input, between requests
      close_guest();
      break;
    }
    if (event.kind == http::EventKind::Head)
      take_request();
    else if (!take_body(event))
      break;
    if (upstream_ && upstream_->channel.unsent() >= kMaxUnsent) break;
  }
  if (stage_ == Stage::Ended) return true;
  input_.erase(input_.begin(), input_.end() - static_cast<ptrdiff_t>(rest.size()));
  return moved;
}

void Http1Flow::take_request() {
  request_ = requests_.head();
  body_sent_ = request_done_ = response_begun_ = until_close_ = false;
  const JudgedRequest judged = judge_request(parts_.judge, origin_, request_);
  Event event = Judge::describe(EventKind::Http, judged.request, judged.verdict);
  event.flow = id_;
  if (!judged.verdict.admitted) {
    parts_.reporter.refuse(std::move(event));
    return refuse(refusal_of(judged));
  }
  admitted_ = true;
  parts_.reporter.tell(event);
  const auto upgrade = http::requested_upgrade(request_);
  if (upgrade == http::Upgrade::Malformed) {
    http::Refusal refusal;
    refusal.status = 400;
    refusal.reason = "bad_request";
    refusal.message = "a WebSocket handshake that is none";
    return refuse(refusal);
  }
  websocket_ = upgrade == http::Upgrade::WebSocket;
  close_after_ = !http::keeps_alive(request_.minor, request_.headers) || request_.minor == 0;
  http::RequestHead forwarded = request_;
  forwarded.target = judged.target;
  forwarded.minor = 1;
  http::strip_hop_by_hop(forwarded.headers);
  if (websocket_) {
    forwarded.headers.push_back({"Connection", "Upgrade"});
    forwarded.headers.push_back({"Upgrade", "websocket"});
  }
  request_text_.clear();
  http::append_forwarded(request_text_, forwarded);
  if (!upstream_ || upstream_->ended) return connect();
  upstream_->reused = true;
  upstream_->answered = false;
  upstream_->parser.expect(request_.method);
  upstream_->channel.send(request_text_);
  stage_ = Stage::Active;
}

bool Http1Flow::take_body(const http::Event& event) {
  Channel& to = upstream_->channel;
  if (event.kind == http::EventKind::Body) {
    body_sent_ = true;
    append_body(to, request_.framing, event.body);
    return true;
  }
  append_end(to, request_.framing, requests_.trailers());
  request_done_ = true;
  return false;
}

// ---- responses

bool Http1Flow::take_responses() {
  Upstream& up = *upstream_;
  ByteView rest(up.input);
  bool moved = false;
  while (stage_ == Stage::Active && upstream_.get() == &up) {
    const auto event = up.parser.next(rest);
    if (event.kind == http::EventKind::More) break;
    moved = true;
    if (!take_response(event)) break;
    if (guest_.unsent() >= kMaxUnsent) break;
  }
  if (stage_ == Stage::Ended || upstream_.get() != &up) return true;
  up.input.erase(up.input.begin(), up.input.end() - static_cast<ptrdiff_t>(rest.size()));
  return moved;
}

// False: no more of this input.
bool Http1Flow::take_response(const http::Event& event) {
  switch (event.kind) {
    case http::EventKind::Interim:
      take_interim();
      return true;
    case http::EventKind::Head:
      take_head();
      return stage_ == Stage::Active;
    case http::EventKind::Body:
      append_body(guest_, until_close_ ? http::Framing{} : upstream_->parser.head().framing,
                  event.body);
      return true;
    case http::EventKind::End:
      if (!until_close_)
        append_end(guest_, upstream_->parser.head().framing, upstream_->parser.trailers());
      finish_exchange();
      return false;
    default:
      fail(Reason::UpstreamUnreachable,
           "its answer is no HTTP: " + std::string(http::fault_text(event.fault)));
      return false;
  }
}

void Http1Flow::take_interim() {
  // Clients of HTTP/1.0 know none (RFC 9110 §15.2).
  if (request_.minor == 0) return;
  std::string text;
  http::append_forwarded(text, upstream_->parser.head(), request_.method);
  guest_.send(text);
}

void Http1Flow::take_upgrade() {
  http::ResponseHead forwarded = upstream_->parser.head();
  if (!websocket_ || !http::accepts_websocket(request_, forwarded))
    return fail(Reason::ProtocolUnsupported, "it switches to a protocol that nobody asked for");
  http::strip_hop_by_hop(forwarded.headers);
  forwarded.headers.push_back({"Connection", "Upgrade"});
  forwarded.headers.push_back({"Upgrade", "websocket"});
  std::string text;
  http::append_forwarded(text, forwarded, request_.method);
  guest_.send(text);
  stage_ = Stage::Upgraded;
}

void Http1Flow::take_head() {
  http::ResponseHead forwarded = upstream_->parser.head();
  if (forwarded.status == 101) return take_upgrade();
  response_begun_ = true;
  if (!http::keeps_alive(forwarded.minor, forwarded.headers)) upstream_->last = true;
  // The end of the connection is the one end that a client of HTTP/1.0 knows besides a length.
  const bool chunked = forwarded.framing.kind == http::BodyKind::Chunked;
  until_close_ =
      forwarded.framing.kind == http::BodyKind::UntilClose || (chunked && request_.minor == 0);
  if (until_close_) forwarded.framing.kind = http::BodyKind::UntilClose;
  close_after_ = close_after_ || until_close_;
  forwarded.minor = 1;
  http::strip_hop_by_hop(forwarded.headers);
  if (close_after_) forwarded.headers.push_back({"Connection", "close"});
  std::string text;
  http::append_forwarded(text, forwarded, request_.method);
  guest_.send(text);
}

void Http1Flow::finish_exchange() {
  // An answer before the whole request: the rest of that is of no use, and nobody reads it.
  const bool over = close_after_ || !request_done_;
  if (upstream_->ended || upstream_->last || over) upstream_.reset();
  if (over) return close_guest();
  stage_ = Stage::Idle;
}

bool Http1Flow::relay_upgraded() {
  const bool moved = !input_.empty() || !upstream_->input.empty();
  upstream_->channel.send(input_);
  guest_.send(upstream_->input);
  input_.clear();
  upstream_->input.clear();
  if (guest_ended_) upstream_->channel.finish();
  if (upstream_->ended) guest_.finish();
  if (guest_ended_ && upstream_->ended && upstream_->channel.unsent() == 0) close_guest();
  return moved;
}

// ---- upstream

void Http1Flow::connect() {
  stage_ = Stage::Connecting;
  upstream_.reset();
  old_connector_ = std::move(connector_);
  connector_ = std::make_unique<Connector>(
      Connector::Parts{parts_.loop, parts_.judge, parts_.resolver}, origin_.host, origin_.to,
      [this](Dial::Result result) { connected(std::move(result)); });
}

void Http1Flow::connected(Dial::Result result) {
  if (!result.socket) {
    fail(result.error == ETIMEDOUT ? Reason::TimedOut : Reason::UpstreamUnreachable,
         sys::errno_text(result.error));
    return turn();
  }
  prepare_stream(result.socket.get());
  if (!origin_.tls) {
    upstream_ = std::make_unique<Upstream>(Channel(std::move(result.socket)));
  } else {
    const crypto::TlsPeer peer{origin_.host->text(), origin_.to.port, {std::string(kHttp1)}, {}};
    upstream_ = std::make_unique<Upstream>(
        Channel(std::move(result.socket), crypto::TlsEngine(parts_.interception->servers(), peer)));
    deadline_ = parts_.loop.after(kHandshakePatience, [this] {
      fail(Reason::TimedOut, "its TLS handshake does not end");
      turn();
    });
  }
  turn();
}

bool Http1Flow::check_upstream() {
  if (!upstream_->channel.open()) return true;
  deadline_.reset();
  upstream_->parser.expect(request_.method);
  upstream_->channel.send(request_text_);
  stage_ = Stage::Active;
  return true;
}

// It has ended or failed, at a point that decides what that means.
void Http1Flow::upstream_lost(Channel::State state) {
  Upstream& up = *upstream_;
  crypto::TlsEngine* engine = up.channel.engine();
  const bool tls_failed = engine != nullptr && engine->phase() == TlsPhase::Failed;
  const std::string why = tls_failed ? engine->failure().text : "it closed the connection";
  if (stage_ == Stage::Connecting) {
    static_cast<void>(up.channel.flush());  // the alert that says so
    return fail(Reason::UpstreamTls, why);
  }
  if (stage_ == Stage::Upgraded) {
    if (state == Channel::State::Failed) return end(Reason::Allowed, "connection reset");
    return;
  }
  if (stage_ != Stage::Active) return upstream_.reset();
  // One that was kept may have been closed just as the request was on its way (RFC 9112 §9.3.1).
  if (up.reused && !up.answered && !body_sent_) return connect();
  const bool truncated = tls_failed || state == Channel::State::Failed;
  if (!truncated && up.parser.end_of_input().kind == http::EventKind::End && response_begun_) {
    up.ended = true;
    return finish_exchange();
  }
  fail(Reason::UpstreamUnreachable, why);
}

// ---- endings

// Where the client can still be told, it is; in the middle of an answer only a reset says that it
// is not whole.
void Http1Flow::fail(Reason reason, const std::string& detail) {
  if (response_begun_ || stage_ == Stage::Upgraded) return end(reason, detail);
  how_ = {reason, detail};
  refuse(failure_of(origin_, reason, detail));
}

void Http1Flow::refuse(const http::Refusal& refusal) {
  deadline_.reset();
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
