// How streams end before their time, by whoever ends them; and what is left when one is over.
#include "http2_fields.h"
#include "http2_flow.h"

namespace mvm::egress {
namespace {

using http::H2Error;
using policy::Reason;

H2Error known(uint32_t error) {
  return http::h2_error_name(error).empty() ? H2Error::Cancel : static_cast<H2Error>(error);
}

}

void Http2Flow::guest_reset(Stream& stream, const http::H2Event& event) {
  // One that was refused has been told of.
  if (event.fault && !stream.deaf)
    tell_stop(stream, Reason::ProtocolUnsupported, {}, "its HTTP/2: " + std::string(event.reason));
  if (stream.server != 0 && server_) server_->session.reset(stream.server, known(event.error));
  drop(stream);
}

void Http2Flow::server_reset(Stream& stream, const http::H2Event& event) {
  if (event.fault) {
    const std::string detail = "its answer is no HTTP/2: " + std::string(event.reason);
    tell_stop(stream, Reason::UpstreamUnreachable, {}, detail);
    return fail(stream, Reason::UpstreamUnreachable, detail);
  }
  // Some servers end so what they have said in full (RFC 9113 §8.1): what is still on its way to
  // the guest goes before it.
  if (event.error == 0 && guest_.session.unsent(stream.guest) > 0) {
    stream.deaf = stream.reset_when_sent = true;
    to_stop_.push_back(stream.guest);
    return;
  }
  guest_.session.reset(stream.guest, known(event.error));
  drop(stream);
}

void Http2Flow::fail(Stream& stream, Reason reason, const std::string& detail) {
  refuse(stream, failure_of(origin_, reason, detail));
}

void Http2Flow::deny(Stream& stream, const JudgedRequest& judged) {
  describe(stream, judged);
  parts_.reporter.refuse(stream.judged);
  refuse(stream, refusal_of(judged));
}

// Where the client can still be told, it is; in the middle of an answer only a reset says that it
// is not whole.
void Http2Flow::refuse(Stream& stream, const http::Refusal& refusal) {
  if (stream.server != 0 && server_) server_->session.reset(stream.server, H2Error::Cancel);
  if (stream.response_begun) {
    guest_.session.reset(stream.guest, H2Error::Internal);
    return drop(stream);
  }
  const std::string body = http::refusal_body(refusal);
  const bool bodiless = stream.method == "HEAD";
  http::ResponseHead head = http::refusal_head(refusal, body.size());
  head.headers.push_back({"content-length", {}});  // as_fields() puts it in
  http::H2Head answer;
  answer.status = head.status;
  answer.headers = as_fields(std::move(head.headers), head.framing);
  guest_.session.respond(stream.guest, answer, bodiless);
  if (!bodiless) {
    guest_.session.send(stream.guest, as_bytes(body));
    guest_.session.finish(stream.guest);
  }
  stream.filters.end(false);
  std::erase(waiting_, stream.guest);
  collected_ -= std::exchange(stream.collected, 0);
  stream.body = Bytes();
  stream.deaf = stream.response_begun = stream.response_ended = true;
  if (!stream.request_ended) to_stop_.push_back(stream.guest);
  settle(stream);
}

void Http2Flow::refuse(Stream& stream, FilterRefusal refusal) {
  tell_stop(stream, refusal.reason, std::move(refusal.rule), std::move(refusal.detail));
  refuse(stream, refusal.answer);
}

// What was admitted goes no further.
void Http2Flow::tell_stop(Stream& stream, Reason reason, std::string rule, std::string detail) {
  Event& judged = stream.judged;
  judged.time = std::chrono::system_clock::now();
  judged.outcome = policy::Outcome::Deny;
  judged.reason = reason;
  judged.audited = false;
  judged.rule = std::move(rule);
  judged.detail = std::move(detail);
  judged.suggestion.clear();
  parts_.reporter.refuse(judged);
}

// Opens windows for what has left, or went nowhere; and drops a stream that is over.
void Http2Flow::settle(Stream& stream) {
  const bool collecting = stream.collected > 0;
  const size_t to_server =
      stream.server != 0 && server_ ? server_->session.unsent(stream.server) : 0;
  const bool waits = stream.server == 0 && !collecting && !stream.deaf;
  if (stream.owed_guest > 0 && to_server == 0 && !waits)
    guest_.session.consumed(stream.guest, std::exchange(stream.owed_guest, 0));
  const size_t to_guest = guest_.session.unsent(stream.guest);
  if (stream.owed_server > 0 && to_guest == 0 && server_)
    server_->session.consumed(stream.server, std::exchange(stream.owed_server, 0));
  if (stream.request_ended && stream.response_ended && to_server == 0 && to_guest == 0)
    drop(stream);
}

void Http2Flow::drop(Stream& stream) {
  if (stream.owed_guest > 0) guest_.session.consumed(stream.guest, stream.owed_guest);
  if (stream.owed_server > 0 && server_)
    server_->session.consumed(stream.server, stream.owed_server);
  stream.filters.end(stream.request_ended && stream.response_ended);
  collected_ -= stream.collected;
  if (stream.server == 0)
    std::erase(waiting_, stream.guest);
  else
    by_server_.erase(stream.server);
  streams_.erase(stream.guest);
}

}
