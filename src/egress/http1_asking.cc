// Requests that a rule leaves to a person: they wait, unread behind their head, for the answer.
#include "http1_flow.h"

namespace mvm::egress {

using policy::Outcome;

void Http1Flow::ask(JudgedRequest judged) {
  auto ticket = parts_.questions.put(judged.request, judged.verdict.decision, [this](Answered how) {
    answer_ = how;
    later_ = parts_.loop.after(std::chrono::milliseconds(0), [this] { turn(); });
  });
  if (!ticket) {
    judged.verdict = {{Outcome::Deny, ticket.error(), judged.verdict.decision.rule, false}};
    judged_ = Judge::describe(EventKind::Http, judged.request, judged.verdict);
    judged_.flow = id_;
    parts_.reporter.refuse(judged_);
    return refuse(refusal_of(judged));
  }
  parts_.reporter.refuse(judged_);  // as refusals are: many equal ones become one
  question_ = std::move(*ticket);
  asked_ = std::move(judged);
  answer_.reset();
  stage_ = Stage::Asking;
}

void Http1Flow::take_answer() {
  question_.reset();
  JudgedRequest judged = std::exchange(asked_, {});
  const bool allowed = std::exchange(answer_, {}) == Answered::Allowed;
  // Judged again: the policy may have changed meanwhile.
  const Verdict now = parts_.judge.ask(judged.request);
  judged.verdict = now.asks() && allowed ? now.granted() : now;
  if (judged.verdict.asks()) judged.verdict.decision.outcome = Outcome::Deny;
  judged_ = Judge::describe(EventKind::Http, judged.request, judged.verdict);
  judged_.flow = id_;
  stage_ = Stage::Idle;
  if (judged.verdict.admitted) return forward(judged);
  parts_.reporter.refuse(judged_);
  refuse(refusal_of(judged));
}

}
