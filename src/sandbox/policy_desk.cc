#include "policy_desk.h"

#include <algorithm>
#include <optional>

#include "mvm/base/text.h"
#include "mvm/policy/change.h"

namespace mvm::sandbox {
namespace {

using policy::Outcome;

// The rule that says of all equal questions what was said of this one.
proto::PolicyChanges rule_of(const egress::OpenQuestion& question, bool allow) {
  std::string rule = question.host + ":" + std::to_string(question.port);
  if (!question.method.empty()) {
    const auto path = policy::normal_path(question.path);
    rule = question.method + (question.port == 80 ? " http://" : " https://") + rule +
           (path ? policy::PathPattern::exactly(*path).text() : "");
  }
  const auto word = policy::parse_rule(rule);
  if (question.host.empty() || !word)
    throw Error(Kind::Unsupported, "no rule can name this exactly; answer it with --scope once");
  return allow ? proto::PolicyChanges{{word->text}, {}} : proto::PolicyChanges{{}, {word->text}};
}

proto::Question shown(const egress::OpenQuestion& question) {
  proto::Question out;
  out.id = std::to_string(question.number);
  out.host = question.host.empty() && question.address ? question.address->text() : question.host;
  out.port = question.port;
  out.method = question.method.substr(0, proto::kMaxWord);
  out.path = question.path.substr(0, proto::kMaxQuestionText);
  out.rule = question.rule.substr(0, proto::kMaxQuestionText);
  out.waiting = question.waiting;
  out.left_ms = static_cast<uint64_t>(question.left.count());
  return out;
}

[[noreturn]] void does_not_decode() { throw Error(Kind::Invalid, "the request does not decode"); }

// In their one spelling.
std::vector<std::string> spelled(const std::vector<std::string>& rules) {
  std::vector<std::string> out;
  for (const std::string& rule : rules) {
    const auto word = policy::parse_rule(rule);
    if (!word) throw Error(Kind::Invalid, *policy::rule_complaint(rule));
    out.push_back(word->text);
  }
  return out;
}

}

bool PolicyDesk::take(Asker asker, std::string_view verb, ByteView request) {
  try {
    if (verb == proto::kSandboxPolicyVerb)
      mux_->answer(asker, report());
    else if (verb == proto::kSandboxPolicyChangeVerb)
      mux_->answer(asker, change(request));
    else if (verb == proto::kSandboxAnswerVerb)
      mux_->answer(asker, answer(request));
    else if (verb == proto::kSandboxQuestionsVerb)
      list(asker, request);
    else
      return false;
  } catch (const Error& error) {
    mux_->answer(asker, proto::encode_error({error.kind(), error.message()}));
  }
  return true;
}

egress::Proxy& PolicyDesk::proxy() const {
  if (egress::Proxy* proxy = network_->proxy()) return *proxy;
  const std::string& why = network_->missing();
  throw Error(Kind::Unavailable, "the sandbox has no network" + (why.empty() ? "" : ": " + why));
}

// ---- rules

Bytes PolicyDesk::report() const {
  proto::PolicyReport report;
  if (network_->config())
    report.made = *network_->config();
  else
    report.made.enabled = false;
  report.changes = network_->changes();
  report.recordable = network_->recordable();
  return proto::encode_ok(report.encode());
}

Bytes PolicyDesk::change(ByteView payload) {
  const auto request = proto::PolicyChangeRequest::decode(payload);
  if (!request) does_not_decode();
  const proto::PolicyChanges changes{spelled(request->add.allow), spelled(request->add.deny)};
  // Nobody could look into TLS for them: the authority is bound to the hosts that it was made for.
  for (const auto* rules : {&changes.allow, &changes.deny})
    for (const std::string& rule : *rules)
      if (const auto host = policy::inspected_host(rule); host && !proxy().certifies(*host))
        throw Error(Kind::Unsupported,
                    "requests to " + host->text() +
                        " cannot be judged: the sandbox's certificate authority was made for the "
                        "hosts of its first rules alone. Start it anew with the endpoint among "
                        "them, or name the host as a whole: " +
                        host->text());
  make(changes, with(changes));
  return proto::encode_ok();
}

proto::PolicyChanges PolicyDesk::with(const proto::PolicyChanges& add) const {
  proxy();
  proto::PolicyChanges all = policy::changed(network_->changes(), add);
  if (all.allow.size() > proto::kMaxPolicyChanges || all.deny.size() > proto::kMaxPolicyChanges ||
      all.encode().size() > proto::kMaxPolicyBytes)
    throw Error(Kind::Exhausted, "there are as many added rules as there can be (" +
                                     std::to_string(proto::kMaxPolicyChanges) + ", " +
                                     format_size(proto::kMaxPolicyBytes) + ")");
  return all;
}

void PolicyDesk::make(const proto::PolicyChanges& add, proto::PolicyChanges all) {
  const auto record = [&](Outcome outcome, const std::vector<std::string>& rules) {
    for (const std::string& rule : rules)
      if (!audit_->record(audit::PolicyChanged{outcome, audit::RuleId(rule)}))
        throw Error(Kind::Exhausted,
                    "the change cannot be recorded, so it is not made: " + audit_->why());
  };
  record(Outcome::Allow, add.allow);
  record(Outcome::Deny, add.deny);
  network_->change(std::move(all));
}

// ---- questions

Bytes PolicyDesk::answer(ByteView payload) {
  const auto request = proto::AnswerRequest::decode(payload);
  if (!request) does_not_decode();
  const auto number = parse_u64(request->id);
  const auto open = proxy().questions();
  const auto found = std::ranges::find_if(
      open, [&](const egress::OpenQuestion& each) { return number && each.number == *number; });
  if (found == open.end())
    throw Error(Kind::NotFound, "nothing waits under " + printable(request->id, 40) +
                                    " any more: it was answered, gave up, or its time was over");
  std::optional<proto::PolicyChanges> rule;
  if (request->session) rule = rule_of(*found, request->allow);
  proto::PolicyChanges all;
  if (rule) all = with(*rule);
  const audit::QuestionAnswered said{found->number, request->allow ? Outcome::Allow : Outcome::Deny,
                                     request->session};
  if (!audit_->record(said))
    throw Error(Kind::Exhausted,
                "the answer cannot be recorded, so it does not count: " + audit_->why());
  if (rule) make(*rule, std::move(all));  // which answers it, and all that it is about
  proxy().answer(found->number, request->allow);
  return proto::encode_ok(shown(*found).encode());
}

Bytes PolicyDesk::questions() const {
  proto::QuestionList list;
  if (egress::Proxy* proxy = network_->proxy())
    for (const egress::OpenQuestion& question : proxy->questions())
      if (list.questions.size() < proto::kMaxQuestions) list.questions.push_back(shown(question));
  list.newest = newest_;
  return proto::encode_ok(list.encode());
}

void PolicyDesk::list(Asker asker, ByteView payload) {
  const auto request = proto::QuestionsRequest::decode(payload);
  if (!request) does_not_decode();
  if (!request->beyond || newest_ > *request->beyond) return mux_->answer(asker, questions());
  if (waiting_.size() >= kMaxAskers) {
    mux_->answer(waiting_.front(), questions());
    waiting_.pop_front();
  }
  waiting_.push_back(asker);
}

// The question is on the list only when its sink has returned.
void PolicyDesk::on_question(const egress::OpenQuestion& question) {
  newest_ = question.number;
  if (waiting_.empty()) return;
  later_ = loop_->after(std::chrono::milliseconds(0), [this] {
    const Bytes payload = questions();
    for (const Asker asker : std::exchange(waiting_, {})) mux_->answer(asker, payload);
  });
}

}
