// Streams that a rule leaves to a person: each waits for its answer, with what comes of its body
// behind a window that does not open, while the others go on.
#include <algorithm>

#include "http2_flow.h"

namespace mvm::egress {

namespace {

constexpr std::chrono::seconds kParting{1};

}

using policy::Outcome;

void Http2Flow::ask(Stream& stream, JudgedRequest judged, const http::H2Head& head) {
  auto ticket = parts_.questions.put(
      judged.request, judged.verdict.decision, [this, id = stream.guest](Answered how) {
        // The ticket is the stream's, so that is still there.
        streams_.at(id).asked->answer = how;
        answered_.push_back(id);
        later_ = parts_.loop.after(std::chrono::milliseconds(0), [this] { turn(); });
      });
  if (!ticket) {
    judged.verdict = {{Outcome::Deny, ticket.error(), judged.verdict.decision.rule, false}};
    return deny(stream, judged);
  }
  parts_.reporter.refuse(stream.judged);  // as refusals are: many equal ones become one
  stream.asked = std::make_unique<Asked>(std::move(judged), head, std::move(*ticket));
}

bool Http2Flow::take_answers() {
  if (answered_.empty()) return false;
  for (const int32_t id : std::exchange(answered_, {}))
    if (Stream* const stream = of_guest(id); stream != nullptr && stream->asked)
      take_answer(*stream);
  return true;
}

void Http2Flow::take_answer(Stream& stream) {
  const auto asked = std::move(stream.asked);
  JudgedRequest& judged = asked->judged;
  // Judged again: the policy may have changed meanwhile.
  const Verdict now = parts_.judge.ask(judged.request);
  const bool granted = now.asks() && asked->answer == Answered::Allowed;
  judged.verdict = granted ? now.granted() : now;
  if (judged.verdict.asks()) judged.verdict.decision.outcome = Outcome::Deny;
  if (!judged.verdict.admitted) return deny(stream, judged);
  if (leaving_ || parting_) {
    // The server's connection has not lasted as long as the question. The client makes a new one
    // (RFC 9113 §8.7), and nobody is to be asked twice.
    if (granted) parts_.questions.keep(judged.request, now.decision);
    guest_.session.reset(stream.guest, http::H2Error::RefusedStream);
    return drop(stream);
  }
  describe(stream, judged);
  const int32_t id = stream.guest;
  const Bytes body = std::exchange(stream.body, {});
  const bool ended = std::exchange(stream.request_ended, false);
  const bool whole = ended && body.empty() && stream.trailers.empty();
  stream.request_ended = whole;
  forward(stream, judged, asked->head, whole);
  if (whole) return;
  // What came meanwhile comes now. Either step may have been the stream's end.
  if (Stream* const still = of_guest(id); still != nullptr && !body.empty()) {
    still->owed_guest -= body.size();
    take_request_body(*still, body);
  }
  if (Stream* const still = of_guest(id); still != nullptr && ended) end_request(*still);
}

size_t Http2Flow::asking() const noexcept {
  return static_cast<size_t>(std::ranges::count_if(
      streams_, [](const auto& numbered) { return numbered.second.asked != nullptr; }));
}

// Nobody waits for a person any more. curl 7.88 takes a GOAWAY beside a stream's REFUSED_STREAM for
// the end of the answer, and does not try again; so the one has time to arrive before the other.
void Http2Flow::part() {
  if (!parting_ || deadline_ || asking() > 0) return;
  deadline_ = parts_.loop.after(kParting, [this] {
    deadline_.reset();
    parting_ = false;
    leave();
    turn();
  });
}

}
