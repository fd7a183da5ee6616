// Requests and responses, one by one: judged, stripped of what is for one hop, and passed on.
#include "mvm/http/forward.h"
#include "mvm/http/upgrade.h"

#include "http1_flow.h"

namespace mvm::egress {
namespace {

using policy::Reason;

void append_body(Channel& channel, const http::Framing& framing, ByteView body) {
  if (body.empty()) return;
  if (framing.kind != http::BodyKind::Chunked) return channel.send(body);
  std::string line;
  http::append_chunk_size(line, body.size());
  channel.send(line);
  channel.send(body);
  channel.send(http::kChunkEnd);
}

// HTTP/1.0 may leave it out where the target names the server (RFC 9112 §3.2.2).
void add_host(http::RequestHead& head, const http::RequestTarget& target) {
  if (http::find(head.headers, "Host") != nullptr) return;
  const http::Authority& server = *target.authority;
  const bool v6 = server.host.find(':') != std::string::npos;
  std::string text = v6 ? "[" + server.host + "]" : server.host;
  if (server.port) text += ":" + std::to_string(*server.port);
  head.headers.insert(head.headers.begin(), {"Host", std::move(text)});
}

void append_end(Channel& channel, const http::Framing& framing, const http::Headers& trailers) {
  if (framing.kind != http::BodyKind::Chunked) return;
  std::string text;
  http::append_last_chunk(text, trailers);
  channel.send(text);
}

}

// ---- requests

bool Http1Flow::take_requests() {
  if (stage_ == Stage::Active && request_done_) return false;
  ByteView rest(input_);
  bool moved = false;
  while (stage_ == Stage::Idle || stage_ == Stage::Collecting ||
         (stage_ == Stage::Active && !request_done_)) {
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
      if (as_text(input_).starts_with("PRI * HTTP/2.0\r\n\r\n"))
        refuse_http2();
      else
        refuse_malformed(refusal);
      break;
    }
    if (idle && event.kind == http::EventKind::End) {  // of the input, between requests
      close_guest();
      break;
    }
    if (event.kind == http::EventKind::Head && hand_over_tunnel(rest)) return true;
    if (event.kind == http::EventKind::Head)
      take_request();
    else if (stage_ == Stage::Collecting ? !collect(event) : !take_body(event))
      break;
    if (upstream_ && upstream_->channel.unsent() >= kMaxUnsent) break;
  }
  if (stage_ == Stage::Ended) return true;
  input_.erase(input_.begin(), input_.end() - static_cast<ptrdiff_t>(rest.size()));
  return moved;
}

void Http1Flow::take_request() {
  request_ = requests_.head();
  body_sent_ = request_done_ = response_begun_ = false;
  if (origin_.door && !find_server()) return;
  settle_host(origin_, request_);
  judge_it();
}

void Http1Flow::judge_it() {
  const JudgedRequest judged = judge_request(parts_.judge, origin_, request_);
  judged_ = Judge::describe(EventKind::Http, judged.request, judged.verdict);
  judged_.flow = id_;
  if (judged.verdict.asks()) return ask(judged);
  if (!judged.verdict.admitted) {
    parts_.reporter.refuse(judged_);
    return refuse(refusal_of(judged));
  }
  forward(judged);
}

void Http1Flow::forward(const JudgedRequest& judged) {
  const auto upgrade = http::requested_upgrade(request_);
  if (upgrade == http::Upgrade::Malformed) {
    http::Refusal refusal;
    refusal.status = 400;
    refusal.reason = "bad_request";
    refusal.message = "a WebSocket handshake that is none";
    FilterRefusal malformed;
    malformed.reason = Reason::ProtocolUnsupported;
    malformed.answer = std::move(refusal);
    return refuse(std::move(malformed));
  }
  websocket_ = upgrade == http::Upgrade::WebSocket;
  close_after_ = !http::keeps_alive(request_.minor, request_.headers) || request_.minor == 0;
  http::RequestHead forwarded = request_;
  forwarded.target = judged.target;
  forwarded.minor = 1;
  http::strip_hop_by_hop(forwarded.headers);
  add_host(forwarded, requests_.target());
  if (websocket_) {
    forwarded.headers.push_back({"Connection", "Upgrade"});
    forwarded.headers.push_back({"Upgrade", "websocket"});
  }
  if (!filter_request(forwarded)) return;
  if (!parts_.reporter.tell(judged_)) return refuse(not_recorded());
  admitted_ = true;
  if (stage_ == Stage::Collecting) {
    forwarded_ = std::move(forwarded);
    return;
  }
  request_text_.clear();
  http::append_forwarded(request_text_, forwarded);
  send_request();
}

// False: refused. Decides how the body goes on: as it comes, in chunks of its own, or collected.
bool Http1Flow::filter_request(http::RequestHead& forwarded) {
  sent_framing_ = forwarded.framing;
  if (parts_.filters.empty()) return true;
  filters_ =
      Filters(parts_.filters,
              {id_, exchanges_++, judged_.host.empty() ? judged_.address->text() : judged_.host,
               origin_.to.port, origin_.tls},
              parts_.commit);
  if (auto refusal = filters_.request_head(forwarded)) {
    refuse(std::move(*refusal));
    return false;
  }
  const auto committed = [this] {
    auto refusal = filters_.commit();
    if (refusal) refuse(std::move(*refusal));
    return !refusal;
  };
  if (filters_.request_use() != BodyUse::Rewrite || sent_framing_.kind == http::BodyKind::None)
    return committed();
  if (sent_framing_.kind == http::BodyKind::Length && sent_framing_.length <= kMaxCollected) {
    stage_ = Stage::Collecting;
    filters_.collect();
    collected_.clear();
    // Who waits for a word from upstream would wait for ever.
    if (http::expectation(request_) == http::Expectation::Continue && request_.minor > 0)
      guest_.send(http::kContinue);
    std::erase_if(forwarded.headers,
                  [](const http::Header& h) { return http::same_name(h.name, "Expect"); });
    return true;
  }
  sent_framing_ = forwarded.framing = {http::BodyKind::Chunked, 0};
  return committed();
}

bool Http1Flow::collect(const http::Event& event) {
  const bool last = event.kind == http::EventKind::End;
  if (auto refusal = filters_.request_body(last ? ByteView() : event.body, last, collected_)) {
    refuse(std::move(*refusal));
    return false;
  }
  if (!last) return true;
  request_done_ = true;
  sent_framing_ = forwarded_.framing = {http::BodyKind::Length, collected_.size()};
  request_text_.clear();
  http::append_forwarded(request_text_, forwarded_);
  request_text_ += as_text(collected_);
  collected_ = {};
  send_request();
  return false;
}

void Http1Flow::send_request() {
  if (!upstream_ || upstream_->ended) return connect();
  upstream_->reused = true;
  upstream_->answered = false;
  upstream_->parser.expect(request_.method);
  upstream_->channel.send(request_text_);
  stage_ = Stage::Active;
}

bool Http1Flow::take_body(const http::Event& event) {
  Channel& to = upstream_->channel;
  const bool last = event.kind == http::EventKind::End;
  const bool filtered =
      filters_.request_use() != BodyUse::Ignore && request_.framing.kind != http::BodyKind::None;
  Bytes changed;
  if (filtered)
    if (auto refusal = filters_.request_body(last ? ByteView() : event.body, last, changed)) {
      refuse(std::move(*refusal));
      return false;
    }
  http::Headers trailers;
  if (last) trailers = http::kept_trailers(requests_.trailers());
  if (auto refusal = filters_.request_trailers(trailers)) {
    refuse(std::move(*refusal));
    return false;
  }
  body_sent_ = body_sent_ || !last;
  append_body(to, sent_framing_, filtered || last ? ByteView(changed) : event.body);
  if (!last) return true;
  append_end(to, sent_framing_, trailers);
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
    if (!take_response(event, rest.size())) break;
    if (guest_.unsent() >= kMaxUnsent) break;
  }
  if (stage_ == Stage::Ended || upstream_.get() != &up) return true;
  up.input.erase(up.input.begin(), up.input.end() - static_cast<ptrdiff_t>(rest.size()));
  return moved;
}

// `here`: so much has come behind the event. False: no more of this input.
bool Http1Flow::take_response(const http::Event& event, size_t here) {
  switch (event.kind) {
    case http::EventKind::Interim:
      return take_interim();
    case http::EventKind::Head:
      take_head(here);
      return stage_ == Stage::Active;
    case http::EventKind::Body:
      return take_response_body(event.body, false);
    case http::EventKind::End:
      if (take_response_body({}, true) && take_response_end()) finish_exchange();
      return false;
    default:
      fail(Reason::UpstreamUnreachable,
           "its answer is no HTTP: " + std::string(http::fault_text(event.fault)));
      return false;
  }
}

bool Http1Flow::take_interim() {
  // Clients of HTTP/1.0 know none (RFC 9110 §15.2).
  if (request_.minor == 0) return true;
  http::ResponseHead forwarded = upstream_->parser.head();
  if (auto refusal = filters_.interim_head(forwarded)) {
    refuse(std::move(*refusal));
    return false;
  }
  std::string text;
  http::append_forwarded(text, forwarded, request_.method);
  guest_.send(text);
  return true;
}

// The filters first: the protocol that the server has chosen is compared with what the guest asked
// for, and a secret may stand in it (Sec-WebSocket-Protocol).
void Http1Flow::take_upgrade() {
  http::ResponseHead forwarded = upstream_->parser.head();
  if (auto refusal = filters_.response_head(forwarded)) return refuse(std::move(*refusal));
  if (!websocket_ || !http::accepts_websocket(request_, forwarded))
    return fail(Reason::ProtocolUnsupported, "it switches to a protocol that nobody asked for");
  http::strip_hop_by_hop(forwarded.headers);
  forwarded.headers.push_back({"Connection", "Upgrade"});
  forwarded.headers.push_back({"Upgrade", "websocket"});
  std::string text;
  http::append_forwarded(text, forwarded, request_.method);
  guest_.send(text);
  filters_.end(true);
  stage_ = Stage::Upgraded;
}

void Http1Flow::take_head(size_t here) {
  http::ResponseHead forwarded = upstream_->parser.head();
  if (forwarded.status == 101) return take_upgrade();
  if (!http::keeps_alive(forwarded.minor, forwarded.headers)) upstream_->last = true;
  forwarded.minor = 1;
  http::strip_hop_by_hop(forwarded.headers);
  if (auto refusal = filters_.response_head(forwarded)) return refuse(std::move(*refusal));
  http::Framing& framing = forwarded.framing;
  if (filters_.response_use() == BodyUse::Rewrite && framing.kind == http::BodyKind::Length) {
    if (framing.length <= here) {
      given_.clear();
      answer_head_ = std::move(forwarded);
      return;
    }
    framing = {http::BodyKind::Chunked, 0};
  }
  give_head(std::move(forwarded));
}

void Http1Flow::give_head(http::ResponseHead forwarded) {
  http::Framing& framing = forwarded.framing;
  // The end of the connection is the one end that a client of HTTP/1.0 knows besides a length.
  if (framing.kind == http::BodyKind::Chunked && request_.minor == 0)
    framing = {http::BodyKind::UntilClose, 0};
  given_framing_ = framing;
  // An answer in place of "100 Continue", or of the rest of a body that the server will not read,
  // ends the connection: a client that is not told would send its next request into that end.
  const bool unasked = !body_sent_ && http::find(request_.headers, "expect") != nullptr;
  const bool early = !request_done_ && (upstream_->last || unasked);
  close_after_ = close_after_ || early || framing.kind == http::BodyKind::UntilClose;
  response_begun_ = true;
  if (close_after_) forwarded.headers.push_back({"Connection", "close"});
  std::string text;
  http::append_forwarded(text, forwarded, request_.method);
  guest_.send(text);
}

bool Http1Flow::take_response_body(ByteView body, bool last) {
  if (answer_head_) {
    if (auto refusal = filters_.response_body(body, last, given_)) {
      refuse(std::move(*refusal));
      return false;
    }
    if (!last) return true;
    http::ResponseHead head = *std::exchange(answer_head_, {});
    head.framing.length = given_.size();
    give_head(std::move(head));
    guest_.send(std::exchange(given_, {}));
    return true;
  }
  const bool filtered =
      filters_.response_use() != BodyUse::Ignore && given_framing_.kind != http::BodyKind::None;
  Bytes changed;
  if (filtered)
    if (auto refusal = filters_.response_body(body, last, changed)) {
      refuse(std::move(*refusal));
      return false;
    }
  append_body(guest_, given_framing_, filtered ? ByteView(changed) : body);
  return true;
}

bool Http1Flow::take_response_end() {
  http::Headers trailers = http::kept_trailers(upstream_->parser.trailers());
  if (auto refusal = filters_.response_trailers(trailers)) {
    refuse(std::move(*refusal));
    return false;
  }
  append_end(guest_, given_framing_, trailers);
  return true;
}

void Http1Flow::finish_exchange() {
  // The guest does not wait for what the filters write down at the end. A flush that fails is seen
  // by the turn's own.
  static_cast<void>(guest_.flush());
  filters_.end(request_done_);
  // An answer before the whole request: the rest of that is of no use, and nobody reads it.
  const bool over = close_after_ || !request_done_;
  if (upstream_->ended || upstream_->last || over) drop_upstream();
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
