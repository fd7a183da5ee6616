#include "http2_flow.h"

#include "sockets.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using crypto::TlsFault;
using crypto::TlsPhase;
using http::H2EventKind;
using policy::Reason;

constexpr int kStepsPerTurn = 16;
constexpr auto kLastWords = 2s;

bool full(Channel& channel) {
  return channel.engine() != nullptr && channel.engine()->output().size() >= crypto::kMaxOutput;
}

}

Http2Flow::Http2Flow(HttpParts parts, uint64_t id, OpenChannel guest, ServerOpening::Result server,
                     HttpOrigin origin, Done done)
    : parts_(parts),
      id_(id),
      origin_(std::move(origin)),
      done_(std::move(done)),
      guest_(std::move(guest), http::H2Side::Server),
      failure_(std::move(server.failure)),
      reader_(parts.loop, parts.meter, [this] { turn(); }),
      last_use_(parts.loop.now()),
      counted_(parts.loop.now()) {
  if (server.server)
    server_ = std::make_unique<Side>(std::move(*server.server), http::H2Side::Client);
}

// What came with the handshake waits already.
void Http2Flow::start() {
  later_ = parts_.loop.after(0ms, [this] { turn(); });
}

// ---- moving bytes

void Http2Flow::turn() {
  if (over_) return;
  last_use_ = parts_.loop.now();
  count_time();
  bool moved = true;
  for (int i = 0; i < kStepsPerTurn && moved; ++i) {
    moved = step();
    if (over_) return;
    if (guest_.lost) return end(how_.reason, "connection reset");
    if (server_ && server_->lost) {
      // What it said before is there to be read.
      if (!read(Way::Receive, *server_)) server_lost(server_->channel.how_lost());
      moved = true;
    }
    if (closing_ && guest_.ended && guest_.channel.unsent() == 0)
      return end(how_.reason, how_.detail);
  }
  update();
  // What is left may be here already, so that no socket tells of it.
  if (moved) later_ = parts_.loop.after(0ms, [this] { turn(); });
}

bool Http2Flow::step() {
  bool moved = read(Way::Send, guest_);
  if (server_ && !closing_ && !over_) moved = read(Way::Receive, *server_) || moved;
  if (over_) return true;
  if (closing_) {
    guest_.lost = !guest_.channel.flush();
    return moved;
  }
  // Writing, too, ends streams, for what had come on them.
  if (!take_events(guest_)) return true;
  if (server_) take_events(*server_);
  moved = take_answers() || moved;
  open_waiting();
  moved = write(guest_) || moved;
  if (server_) moved = write(*server_) || moved;
  for (const int32_t id : std::exchange(to_tell_, {}))
    if (Stream* const stream = of_guest(id)) stream->filters.request_left();
  parts_.commit.after();
  take_sent();
  moved = stop_requests() || moved;
  // Not before everybody has been told why: there are clients that read nothing behind a GOAWAY.
  if (lost_ && !leaving_ && !parting_ && streams_.size() == asking()) {
    leave();
    moved = true;
  }
  part();
  // A session may end by what it had to write: a limit was passed, or all is said.
  if (server_ && server_->session.over()) take_events(*server_);
  if (!closing_ && guest_.session.over() && take_events(guest_)) close_guest();
  return moved || closing_;
}

size_t Http2Flow::held() const noexcept { return guest_.held() + (server_ ? server_->held() : 0); }

// Not where there is no room for what comes of it, on either side.
bool Http2Flow::wants_input(Side& side) {
  if (side.ended || full(side.channel)) return false;
  const Side* const other = &side == &guest_ ? server_.get() : &guest_;
  return other == nullptr || other->session.queued() < kMaxQueued;
}

bool Http2Flow::read(Way way, Side& side) {
  if (!wants_input(side)) return false;
  const auto read = reader_.receive(way, side.channel, side.input);
  if (read.used_up) {
    end(Reason::ResourceExhausted, "the sandbox has used up its bytes");
    return true;
  }
  side.ended = read.state != Channel::State::Open;
  const bool guest = &side == &guest_;
  if (closing_) {
    side.input.clear();
    return read.moved;
  }
  if (!side.input.empty() && !take_events(side)) return true;
  if (!side.ended) return read.moved;
  crypto::TlsEngine* const engine = side.channel.engine();
  const bool tls_failed = engine != nullptr && engine->phase() == TlsPhase::Failed;
  if (!guest) {
    server_lost(server_->channel.how_lost());
  } else if (read.state == Channel::State::Failed &&
             !(streams_.empty() && tls_failed && engine->failure().fault == TlsFault::Truncated)) {
    static_cast<void>(guest_.channel.flush());  // an alert says why
    end(Reason::Allowed, tls_failed ? engine->failure().text : "connection reset");
  } else {
    close_guest();  // many clients say no more than that, and nothing is cut off
  }
  return true;
}

// False: that was all of this side, for good or bad.
bool Http2Flow::take_events(Side& side) {
  ByteView rest(side.input);
  std::optional<Begun> begun;
  while (true) {
    const http::H2Event event = side.session.next(rest);
    if (begun) {
      const bool whole = event.kind == H2EventKind::End && event.stream == begun->stream;
      begin(side, *begun, whole);
      begun.reset();
      if (whole) continue;
    }
    if (event.kind == H2EventKind::More) break;
    if (event.kind == H2EventKind::Head) {
      begun.emplace(event.stream, side.session.head());
      continue;
    }
    if (event.kind != H2EventKind::Bad) {
      take_event(side, event);
      continue;
    }
    if (&side == &guest_) {
      const auto error = static_cast<http::H2Error>(event.error);
      const bool costly =
          error == http::H2Error::EnhanceYourCalm || error == http::H2Error::Internal;
      how_.reason = costly ? Reason::ResourceExhausted : Reason::ProtocolUnsupported;
      how_.detail = "its HTTP/2: " + std::string(event.reason);
      close_guest();
    } else {
      server_lost(
          {Reason::UpstreamUnreachable, "its answer is no HTTP/2: " + std::string(event.reason)});
      how_ = failure_;  // with nobody waiting too
    }
    return false;
  }
  side.input.clear();
  return true;
}

// Ends with all written, or with a channel that is full, which its socket will tell of.
bool Http2Flow::write(Side& side) {
  bool moved = false;
  while (true) {
    side.lost = !side.channel.flush();
    if (side.lost || side.channel.unsent() >= kMaxUnsent || !side.session.wants_write()) break;
    scratch_.clear();
    side.session.write(scratch_, kMaxUnsent);
    if (scratch_.empty()) break;
    side.channel.send(scratch_);
    moved = true;
  }
  return moved;
}

void Http2Flow::write_last(Side& side) {
  std::string last;
  side.session.write(last, kMaxUnsent);
  side.channel.send(last);
}

// What has left on one side may come on the other.
void Http2Flow::take_sent() {
  http::H2Sent sent;
  while (guest_.session.take_sent(sent)) {
    Stream* const stream = of_guest(sent.stream);
    if (stream == nullptr) continue;
    const size_t back = std::min(stream->owed_server, sent.length);
    stream->owed_server -= back;
    if (server_ && back > 0) server_->session.consumed(stream->server, back);
    settle(*stream);
  }
  while (server_ && server_->session.take_sent(sent)) {
    Stream* const stream = of_server(sent.stream);
    if (stream == nullptr) continue;
    const size_t back = std::min(stream->owed_guest, sent.length);
    stream->owed_guest -= back;
    if (back > 0) guest_.session.consumed(stream->guest, back);
    settle(*stream);
  }
}

// A client that has its answer may keep the rest of its request (RFC 9113 §8.1).
bool Http2Flow::stop_requests() {
  return std::erase_if(to_stop_, [this](int32_t id) {
           Stream* const stream = of_guest(id);
           if (stream == nullptr) return true;
           const bool sent = stream->reset_when_sent ? guest_.session.unsent(id) == 0
                                                     : guest_.session.written(id);
           if (!sent) return false;
           guest_.session.reset(id, http::H2Error::NoError);
           drop(*stream);
           return true;
         }) > 0;
}

void Http2Flow::count_time() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(last_use_ - counted_);
  if (seconds < 1s) return;
  counted_ += seconds;
  guest_.session.time_passed(static_cast<uint32_t>(seconds.count()));
  if (server_) server_->session.time_passed(static_cast<uint32_t>(seconds.count()));
}

// ---- endings

void Http2Flow::server_lost(Channel::Lost how) {
  lost_ = true;
  failure_ = {how.reason, std::move(how.why)};
  write_last(*server_);  // a GOAWAY that says why
  static_cast<void>(server_->channel.flush());
  drop_server();
  by_server_.clear();
  waiting_.clear();
  std::vector<int32_t> open;
  for (auto& [id, stream] : streams_) {
    if (stream.asked) continue;
    if (!stream.response_ended)
      open.push_back(id);
    else if (!stream.request_ended && !stream.deaf)
      to_stop_.push_back(id);
    stream.deaf = true;
  }
  for (const int32_t id : open) {
    how_ = failure_;
    fail(streams_.at(id), failure_.reason, failure_.detail);
  }
}

void Http2Flow::leave() {
  if (leaving_ || parting_) return;
  parting_ = asking() > 0;
  if (parting_) return;
  leaving_ = true;
  guest_.session.shut_down();
}

void Http2Flow::close_guest() {
  closing_ = true;
  streams_.clear();
  write_last(guest_);
  guest_.channel.finish();
  if (server_) {
    server_->session.shut_down();
    write_last(*server_);
    server_->channel.finish();
    static_cast<void>(server_->channel.flush());
    drop_server();
  }
  deadline_ = parts_.loop.after(kLastWords, [this] { end(how_.reason, how_.detail); });
}

void Http2Flow::drop_server() {
  server_->watch.reset();
  parts_.partings.take(server_->channel.take_socket(), parts_.loop.now());
  server_.reset();
}

void Http2Flow::reset() noexcept {
  for (auto& [id, stream] : streams_)
    if (stream.asked) stream.asked->question.reset();
  guest_.watch.reset();
  reset_connection(guest_.channel.take_socket());
  if (!server_) return;
  server_->watch.reset();
  reset_connection(server_->channel.take_socket());
}

void Http2Flow::end(Reason reason, std::string detail) {
  if (over_) return;
  over_ = true;
  const bool clean = closing_ && guest_.channel.unsent() == 0;
  streams_.clear();
  guest_.watch.reset();
  deadline_.reset();
  later_.reset();
  if (server_) server_->watch.reset();
  if (!clean) reset();
  const auto done = std::move(done_);
  done({reason, std::move(detail)});
}

// ---- waiting

void Http2Flow::update() {
  // Buffers of a connection that waits are not kept.
  if (guest_.input.empty()) guest_.input = Bytes();
  scratch_ = std::string();
  const bool may_read = !reader_.waits();
  const bool from_guest = may_read && wants_input(guest_);
  watch(guest_, from_guest);
  bool again = from_guest && guest_.channel.holds_input();
  if (server_) {
    if (server_->input.empty()) server_->input = Bytes();
    const bool from_server = may_read && wants_input(*server_);
    watch(*server_, from_server);
    again = again || (from_server && server_->channel.holds_input());
  }
  if (again) later_ = parts_.loop.after(0ms, [this] { turn(); });
}

void Http2Flow::watch(Side& side, bool reads) {
  const uint32_t wanted = (reads ? EPOLLIN : 0U) | (side.channel.wants_write() ? EPOLLOUT : 0U);
  if (!side.watch) {
    side.watch = parts_.loop.watch(side.channel.fd(), wanted, [this, &side](uint32_t events) {
      const bool lost = (events & EPOLLERR) != 0 ||
                        ((events & EPOLLHUP) != 0 && (events & (EPOLLIN | EPOLLOUT)) == 0);
      if (!lost) return turn();
      if (&side == &guest_) return end(how_.reason, "connection reset");
      if (!side.ended && !reader_.waits()) return turn();
      server_lost(server_->channel.how_lost());
      turn();
    });
  } else if (side.interest != wanted) {
    side.watch.set_events(wanted);
  }
  side.interest = wanted;
}

}
