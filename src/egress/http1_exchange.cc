// Requests and responses, one by one: judged, stripped of what is for one hop, and passed on.
#include "mvm/http/forward.h"
#include "mvm/http/upgrade.h"

#include "http1_flow.h"

namespace mvm::egress {
namespace {

using policy::Reason;

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
  settle_host(origin_, request_);
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

}
