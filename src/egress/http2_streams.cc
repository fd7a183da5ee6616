// Streams, one by one: judged, stripped of what is for one hop, filtered, and passed on.
#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/http/forward.h"

#include "http2_fields.h"
#include "http2_flow.h"

namespace mvm::egress {
namespace {

using http::BodyKind;
using http::H2Error;
using http::H2EventKind;
using policy::Reason;

}

Http2Flow::Stream* Http2Flow::of_guest(int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

Http2Flow::Stream* Http2Flow::of_server(int32_t id) {
  const auto found = by_server_.find(id);
  return found == by_server_.end() ? nullptr : of_guest(found->second);
}

void Http2Flow::begin(Side& side, const Begun& begun, bool whole) {
  if (&side == &guest_) return begin_request(begun.stream, begun.head, whole);
  if (Stream* const stream = of_server(begun.stream)) begin_response(*stream, begun.head, whole);
}

void Http2Flow::take_event(Side& side, const http::H2Event& event) {
  const bool guest = &side == &guest_;
  if (event.kind == H2EventKind::Malformed && guest) {
    parts_.reporter.refuse(
        malformed_request(origin_, id_, "its HTTP/2: " + std::string(event.reason)));
    return;
  }
  if (event.kind == H2EventKind::GoAway && !guest) {
    // What is still to be opened never will be; the client may try elsewhere.
    for (const int32_t id : std::exchange(waiting_, {})) {
      guest_.session.reset(id, H2Error::RefusedStream);
      drop(streams_.at(id));
    }
    return leave();
  }
  Stream* const stream = guest ? of_guest(event.stream) : of_server(event.stream);
  const bool answered = stream != nullptr && !guest && stream->response_ended;
  if (answered && event.kind == H2EventKind::Reset) {
    stream->deaf = true;  // it wants no more of the request
    to_stop_.push_back(stream->guest);
  }
  if (stream == nullptr || answered) {
    if (event.kind == H2EventKind::Data) side.session.consumed(event.stream, event.data.size());
    return;
  }
  switch (event.kind) {
    case H2EventKind::Interim:
      return take_interim(*stream, side.session.head());
    case H2EventKind::Data:
      return guest ? take_request_body(*stream, event.data)
                   : take_response_body(*stream, event.data);
    case H2EventKind::Trailers:
      (guest ? stream->trailers : stream->response_trailers) =
          http::kept_trailers(side.session.trailers());
      return;
    case H2EventKind::End:
      return guest ? end_request(*stream) : end_response(*stream);
    case H2EventKind::Reset:
      return guest ? guest_reset(*stream, event) : server_reset(*stream, event);
    default:
      return;
  }
}

// ---- requests

void Http2Flow::begin_request(int32_t id, const http::H2Head& head, bool whole) {
  // It crossed our GOAWAY, or that is still to be written.
  if (leaving_ || parting_) {
    guest_.session.reset(id, H2Error::RefusedStream);
    return;
  }
  Stream& stream = streams_[id];
  stream.guest = id;
  stream.method = head.method;
  stream.request_ended = whole;
  const http::RequestHead request = as_request(head);
  settle_host(origin_, request);
  JudgedRequest judged = judge_request(parts_.judge, origin_, request);
  describe(stream, judged);
  if (judged.verdict.asks()) return ask(stream, std::move(judged), head);
  if (!judged.verdict.admitted) return deny(stream, judged);
  if (whole) to_tell_.push_back(id);
  forward(stream, judged, head, whole);
}

void Http2Flow::describe(Stream& stream, const JudgedRequest& judged) {
  stream.judged = Judge::describe(EventKind::Http, judged.request, judged.verdict);
  stream.judged.flow = id_;
}

void Http2Flow::forward(Stream& stream, const JudgedRequest& judged, const http::H2Head& head,
                        bool whole) {
  http::RequestHead forwarded;
  forwarded.method = head.method;
  forwarded.target = judged.target;
  forwarded.headers = without_hop_fields(head.headers);
  forwarded.framing = framing_of(head.headers, whole);
  if (!filter_request(stream, forwarded)) return;
  if (!parts_.reporter.tell(stream.judged)) return refuse(stream, not_recorded());
  admitted_ = true;
  if (!server_) {
    lost_ = true;
    how_ = failure_;
    return fail(stream, failure_.reason, failure_.detail);
  }
  stream.head.method = head.method;
  stream.head.scheme = head.scheme;
  stream.head.authority = head.authority;
  stream.head.path = std::move(forwarded.target);
  stream.head.path_sensitive = head.path_sensitive || forwarded.target_sensitive;
  stream.head.headers = as_fields(std::move(forwarded.headers), forwarded.framing);
  if (stream.collected == 0) waiting_.push_back(stream.guest);
  open_waiting();
}

// False: refused. Decides how the body goes on: as it comes, or whole.
bool Http2Flow::filter_request(Stream& stream, http::RequestHead& head) {
  if (parts_.filters.empty()) return true;
  const std::string host =
      stream.judged.host.empty() ? stream.judged.address->text() : stream.judged.host;
  stream.filters = Filters(parts_.filters, {id_, exchanges_++, host, origin_.to.port, origin_.tls},
                           parts_.commit);
  if (auto refusal = stream.filters.request_head(head)) {
    refuse(stream, std::move(*refusal));
    return false;
  }
  const auto committed = [&] {
    auto refusal = stream.filters.commit();
    if (refusal) refuse(stream, std::move(*refusal));
    return !refusal;
  };
  http::Framing& framing = head.framing;
  if (stream.filters.request_use() != BodyUse::Rewrite || framing.kind != BodyKind::Length)
    return committed();
  if (framing.length == 0 || framing.length > kMaxCollected ||
      collected_ + framing.length > kMaxCollectedInAll) {
    framing = {BodyKind::Chunked, 0};
    return committed();
  }
  stream.filters.collect();
  stream.collected = framing.length;
  collected_ += framing.length;
  // Who waits for a word from the server would wait for ever.
  const auto expects = [](const http::Header& h) { return http::same_name(h.name, "expect"); };
  if (std::erase_if(head.headers, expects) > 0) {
    http::H2Head go_on;
    go_on.status = 100;
    guest_.session.interim(stream.guest, go_on);
  }
  return true;
}

void Http2Flow::take_request_body(Stream& stream, ByteView body) {
  stream.owed_guest += body.size();
  if (stream.asked) {
    stream.body.insert(stream.body.end(), body.begin(), body.end());
    static_cast<void>(hold_back(stream));
    return;
  }
  Bytes changed;
  if (!stream.deaf && stream.filters.request_use() != BodyUse::Ignore) {
    if (auto refusal = stream.filters.request_body(body, false, changed))
      return refuse(stream, std::move(*refusal));
    body = changed;
  }
  if (!stream.deaf) pass_request(stream, body);
  if (hold_back(stream)) settle(stream);
}

// Bodies of streams that the server does not take yet, or that wait for a person, keep the
// connection's window shut; those that it has taken need the rest of it to get on. False: the
// stream had to go; the client may try again.
bool Http2Flow::hold_back(Stream& stream) {
  if (stream.server != 0 || stream.collected > 0 || stream.deaf) return true;
  size_t held = 0;
  for (const auto& [id, other] : streams_)
    if (other.server == 0 && other.collected == 0 && !other.deaf) held += other.owed_guest;
  if (held <= kMaxWaiting) return true;
  guest_.session.reset(stream.guest, H2Error::RefusedStream);
  drop(stream);
  return false;
}

void Http2Flow::pass_request(Stream& stream, ByteView body) {
  if (stream.server == 0)
    stream.body.insert(stream.body.end(), body.begin(), body.end());
  else if (!server_->session.send(stream.server, body))
    stream.deaf = true;  // it has ended the stream early
}

void Http2Flow::end_request(Stream& stream) {
  stream.request_ended = true;
  if (stream.asked) return;
  to_tell_.push_back(stream.guest);
  if (!stream.deaf) {
    Bytes changed;
    if (stream.filters.request_use() != BodyUse::Ignore)
      if (auto refusal = stream.filters.request_body({}, true, changed))
        return refuse(stream, std::move(*refusal));
    if (auto refusal = stream.filters.request_trailers(stream.trailers))
      return refuse(stream, std::move(*refusal));
    if (!changed.empty()) pass_request(stream, changed);
  }
  if (!stream.deaf && stream.collected > 0) {
    collected_ -= std::exchange(stream.collected, 0);
    stream.head.headers =
        as_fields(std::move(stream.head.headers), {BodyKind::Length, stream.body.size()});
    waiting_.push_back(stream.guest);
    return open_waiting();
  }
  if (stream.server != 0 && server_) server_->session.finish(stream.server, stream.trailers);
  settle(stream);
}

void Http2Flow::open_waiting() {
  while (!waiting_.empty() && server_ && server_->session.can_request()) {
    const int32_t id = waiting_.front();
    waiting_.pop_front();
    open(streams_.at(id));
  }
}

void Http2Flow::open(Stream& stream) {
  const bool whole = stream.request_ended && stream.body.empty() && stream.trailers.empty();
  try {
    stream.server = server_->session.request(std::exchange(stream.head, {}), whole);
  } catch (const Error& error) {
    return fail(stream, Reason::ProtocolUnsupported, error.message());
  }
  if (stream.server == 0) {
    guest_.session.reset(stream.guest, H2Error::RefusedStream);
    return drop(stream);
  }
  by_server_.emplace(stream.server, stream.guest);
  if (whole) return;
  server_->session.send(stream.server, std::exchange(stream.body, {}));
  if (stream.request_ended) server_->session.finish(stream.server, stream.trailers);
}

// ---- responses

void Http2Flow::take_interim(Stream& stream, const http::H2Head& head) {
  http::ResponseHead interim;
  interim.status = head.status;
  interim.headers = without_hop_fields(head.headers);
  if (auto refusal = stream.filters.interim_head(interim))
    return refuse(stream, std::move(*refusal));
  http::H2Head forwarded;
  forwarded.status = interim.status;
  forwarded.headers = as_fields(std::move(interim.headers), {});
  guest_.session.interim(stream.guest, forwarded);
}

void Http2Flow::begin_response(Stream& stream, const http::H2Head& head, bool whole) {
  http::ResponseHead response;
  response.status = head.status;
  response.headers = without_hop_fields(head.headers);
  response.framing = framing_of(head.headers, whole);
  if (auto refusal = stream.filters.response_head(response))
    return refuse(stream, std::move(*refusal));
  if (!whole && stream.filters.response_use() == BodyUse::Rewrite)
    response.framing = {BodyKind::Chunked, 0};
  http::H2Head forwarded;
  forwarded.status = response.status;
  forwarded.headers = as_fields(std::move(response.headers), response.framing);
  try {
    guest_.session.respond(stream.guest, forwarded, whole);
  } catch (const Error& error) {
    return fail(stream, Reason::UpstreamUnreachable, error.message());
  }
  stream.response_begun = true;
  stream.response_has_body = !whole;
  if (whole) end_response(stream);
}

void Http2Flow::take_response_body(Stream& stream, ByteView body) {
  stream.owed_server += body.size();
  if (stream.filters.response_use() == BodyUse::Ignore) {
    guest_.session.send(stream.guest, body);
  } else {
    Bytes changed;
    if (auto refusal = stream.filters.response_body(body, false, changed))
      return refuse(stream, std::move(*refusal));
    guest_.session.send(stream.guest, changed);
  }
  settle(stream);
}

void Http2Flow::end_response(Stream& stream) {
  if (stream.response_has_body) {
    if (stream.filters.response_use() != BodyUse::Ignore) {
      Bytes changed;
      if (auto refusal = stream.filters.response_body({}, true, changed))
        return refuse(stream, std::move(*refusal));
      guest_.session.send(stream.guest, changed);
    }
    if (auto refusal = stream.filters.response_trailers(stream.response_trailers))
      return refuse(stream, std::move(*refusal));
    guest_.session.finish(stream.guest, stream.response_trailers);
  }
  stream.response_ended = true;
  settle(stream);
}

}
