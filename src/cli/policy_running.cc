// The policy commands of running sandboxes. They speak to the sandbox's own control socket, as exec
// does: the rules are its process's, and it records what becomes of them.

#include <algorithm>

#include "mvm/agent/connection.h"
#include "mvm/audit/reader.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/policy/change.h"
#include "mvm/policy/compile.h"

#include "audit_logs.h"
#include "json_text.h"
#include "policy_rows.h"
#include "question_prompt.h"
#include "refusals.h"
#include "sandbox_link.h"

namespace mvm::cli {
namespace {

constexpr std::chrono::seconds kPatience{10};

[[noreturn]] void wrong(const Arguments& arguments, const std::string& message) {
  throw UsageError(&arguments.command(), message);
}

Bytes ask_sandbox(Context& context, const std::string& name, ByteView request) {
  return agent::Connection(connect_sandbox(context, name)).request(request, kPatience);
}

[[noreturn]] void broken(const std::string& name) {
  throw Error(Kind::Unavailable, "sandbox '" + name + "' broke the protocol");
}

proto::PolicyReport report_of(Context& context, const std::string& name) {
  const auto report = proto::PolicyReport::decode(
      ask_sandbox(context, name, proto::encode_request(proto::kSandboxPolicyVerb)));
  if (!report) broken(name);
  return *report;
}

policy::Policy policy_of(const proto::PolicyReport& report) {
  if (!report.recordable || !report.made.enabled) return {};
  policy::Policy policy = policy::compile(report.made);
  policy::apply(report.changes, policy);
  return policy;
}

std::vector<std::string> rules_of(const Arguments& arguments) {
  std::vector<std::string> rules;
  for (const std::string& text : arguments.positionals("RULE")) {
    const auto word = policy::parse_rule(text);
    if (!word) wrong(arguments, *policy::rule_complaint(text));
    rules.push_back(word->text);
  }
  return rules;
}

// ---- questions

struct QuestionId {
  std::string sandbox;
  std::string question;
};

// "web/4711"
QuestionId question_id(const Arguments& arguments, const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == text.npos || !parse_u64(std::string_view(text).substr(slash + 1)))
    wrong(arguments, "'" + printable(text, 80) +
                         "' is no id of a question, such as web/4711; mvm policy pending lists "
                         "them");
  return {checked_name(arguments, text.substr(0, slash)), text.substr(slash + 1)};
}

bool for_session(const Arguments& arguments) {
  const std::string scope = arguments.value("scope").value_or("once");
  if (scope != "once" && scope != "session")
    wrong(arguments, "--scope must be once or session, not '" + printable(scope, 40) + "'");
  return scope == "session";
}

void answer(Context& context, const Arguments& arguments, const std::string& id, bool allow) {
  const auto [sandbox, question] = question_id(arguments, id);
  const bool session = for_session(arguments);
  const auto answered = proto::Question::decode(
      ask_sandbox(context, sandbox, proto::AnswerRequest{question, allow, session}.encode()));
  if (!answered) broken(sandbox);
  if (arguments.flag("quiet")) return;
  context.console.out(std::string(allow ? "allowed" : "denied") +
                      (session ? " for the session: " : " once: ") + question_text(*answered) +
                      "\n");
}

std::vector<PendingQuestion> pending_of(Context& context, const std::string& name) {
  const auto list =
      proto::QuestionList::decode(ask_sandbox(context, name, proto::QuestionsRequest{}.encode()));
  if (!list) broken(name);
  std::vector<PendingQuestion> out;
  for (const proto::Question& question : list->questions) out.push_back({name, question});
  return out;
}

// What still refuses a rule that was just allowed; nothing when nothing does, or when it is for
// many hosts.
std::optional<policy::Decision> still_refused(const policy::Policy& policy,
                                              const std::string& rule) {
  policy::Request request;
  if (const auto host = policy::parse_host_rule(rule)) {
    request.host = dns::Name::parse(host->host.text());
    request.port = host->ports.empty() ? 443 : host->ports.front();
  } else if (const auto route = policy::parse_endpoint(rule)) {
    request.host = dns::Name::parse(route->host.text());
    request.port = route->ports.front();
    request.method = route->rules.front().method;
    request.target = route->rules.front().path.text();
  }
  const bool many = !request.host || rule.find('*') != rule.npos;
  if (many) return std::nullopt;
  auto decision = policy::decide(policy, request);
  return decision.outcome == policy::Outcome::Deny ? std::optional(decision) : std::nullopt;
}

int change(Context& context, const Arguments& arguments, const std::string& name, bool allow) {
  const auto rules = rules_of(arguments);
  proto::PolicyChangeRequest request;
  (allow ? request.add.allow : request.add.deny) = rules;
  ask_sandbox(context, name, request.encode());
  if (!arguments.flag("quiet"))
    for (const std::string& rule : rules)
      context.console.out(name + ": " + (allow ? "allowed " : "denied ") + rule +
                          " until it ends\n");
  if (!allow) return kFine;
  const policy::Policy policy = policy_of(report_of(context, name));
  bool all = true;
  for (const std::string& rule : rules) {
    const auto refusal = still_refused(policy, rule);
    if (!refusal) continue;
    all = false;
    context.console.err("mvm: " + rule + " is still refused (" +
                        std::string(policy::reason_word(refusal->reason)) + ")" +
                        (refusal->rule.empty() ? "" : ", by rule '" + refusal->rule + "'") + "\n");
  }
  return all ? kFine : kNotWell;
}

}

int policy_allow(Context& context, const Arguments& arguments) {
  return change(context, arguments, checked_name(arguments, *arguments.positional("NAME")), true);
}

int policy_deny(Context& context, const Arguments& arguments) {
  const std::string subject = *arguments.positional("NAME|ID");
  const bool rules = !arguments.positionals("RULE").empty();
  if (subject.find('/') != subject.npos) {
    if (rules) wrong(arguments, "a question takes no rule");
    answer(context, arguments, subject, false);
    return kFine;
  }
  if (!rules) wrong(arguments, "RULE is missing; or name a question, such as " + subject + "/4711");
  if (arguments.flag("scope")) wrong(arguments, "--scope is for questions");
  return change(context, arguments, checked_name(arguments, subject), false);
}

int policy_approve(Context& context, const Arguments& arguments) {
  for (const std::string& id : arguments.positionals("ID")) question_id(arguments, id);
  for (const std::string& id : arguments.positionals("ID")) answer(context, arguments, id, true);
  return kFine;
}

int policy_list(Context& context, const Arguments& arguments) {
  const std::string name = sandbox_name(arguments);
  const proto::PolicyReport report = report_of(context, name);
  const bool effective = arguments.flag("effective");
  std::vector<PolicyRow> rows;
  if (effective) {
    rows = policy_rows(policy_of(report));
  } else {
    policy::Policy added;
    policy::apply(report.changes, added);
    rows = policy_rows(added);
  }
  const std::string_view mode = !report.made.enabled ? "none"
                                : report.made.audit  ? "audit"
                                                     : "enforce";
  if (arguments.flag("json")) {
    context.console.out(json_policy(mode, report.recordable, rows));
    return kFine;
  }
  if (!report.made.enabled)
    context.console.err("mvm: " + name + " has no network card\n");
  else if (!report.recordable)
    context.console.err("mvm: " + name + " admits nothing new: its audit log cannot be written\n");
  context.console.out(policy_text(rows, mode, effective));
  return kFine;
}

int policy_suggest(Context& context, const Arguments& arguments) {
  const std::string name = sandbox_name(arguments);
  Refusals refusals;
  audit::for_each_record(context.paths.audit_log(find_audit_log(context.paths, name)),
                         [&](std::string_view, const audit::Line& line) { refusals.take(line); });
  const std::string rules = refusals.as_rules();
  if (rules.empty()) {
    context.console.err("mvm: nothing was refused to " + name + "\n");
    return kFine;
  }
  context.console.out("# What " + name + " was refused, or reached by mode \"audit\" alone.\n" +
                      rules);
  return kFine;
}

int policy_pending(Context& context, const Arguments& arguments) {
  if (arguments.flag("quiet") && arguments.flag("json"))
    wrong(arguments, "--quiet and --json contradict");
  std::vector<PendingQuestion> pending;
  if (const auto name = arguments.positional("NAME")) {
    pending = pending_of(context, checked_name(arguments, *name));
  } else {
    for (const api::Sandbox& sandbox : context.service().sandboxes(false)) {
      if (sandbox.state != api::SandboxState::Running || !sandbox.network.enabled) continue;
      try {
        for (PendingQuestion& each : pending_of(context, sandbox.name))
          pending.push_back(std::move(each));
      } catch (const Error& error) {
        // One that ends at this moment is no reason to keep quiet about the others.
        context.console.err("mvm: " + sandbox.name + ": " + tame(error.message()) + "\n");
      }
    }
  }
  if (arguments.flag("json")) {
    context.console.out(json_pending(pending));
    return kFine;
  }
  if (arguments.flag("quiet")) {
    std::string ids;
    for (const PendingQuestion& each : pending) ids += each.id() + "\n";
    context.console.out(ids);
    return kFine;
  }
  std::vector<std::vector<std::string>> rows = {{"ID", "LEFT", "WAITING", "WHAT"}};
  for (const PendingQuestion& each : pending)
    rows.push_back({each.id(), format_duration_ms(each.question.left_ms / 1000 * 1000),
                    std::to_string(each.question.waiting), question_text(each.question)});
  context.console.out(table(rows));
  return kFine;
}

}
