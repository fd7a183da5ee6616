#include "http_judge.h"

#include <algorithm>
#include <utility>

namespace mvm::egress {
namespace {

using policy::Outcome;
using policy::Reason;

Verdict denied(Reason reason) { return {{Outcome::Deny, reason, {}, false}}; }

bool is_of_connection(const http::RequestTarget& target, const HttpOrigin& origin) {
  if (target.form == http::TargetForm::Absolute && (target.scheme == "https") != origin.tls)
    return false;
  if (!target.authority) return false;
  const uint16_t usual = origin.tls ? 443 : 80;
  return target.authority->port.value_or(usual) == origin.to.port;
}

// For names, decide() compares; an address has to be the one that is connected to.
bool names_the_address(const http::RequestTarget& target, const HttpOrigin& origin) {
  const auto address = IpAddress::parse(target.authority->host);
  return address && *address == origin.to.address;
}

std::string where(const policy::Request& request) {
  if (request.host) return request.host->text();
  return request.address ? request.address->text() : "";
}

}

void settle_host(HttpOrigin& origin, const http::RequestHead& head) {
  if (origin.names.empty()) return;
  const auto names = std::exchange(origin.names, {});
  http::RequestTarget target;
  if (http::read_target(head, target) != http::TargetFault::None || !target.authority) return;
  const auto name = dns::Name::parse(target.authority->host);
  if (name && std::ranges::find(names, *name) != names.end()) origin.host = name;
}

JudgedRequest judge_request(const Judge& judge, const HttpOrigin& origin,
                            const http::RequestHead& head) {
  JudgedRequest out;
  out.request.host = origin.host;
  out.request.address = origin.to.address;
  out.request.port = origin.to.port;
  out.request.method = head.method;
  http::RequestTarget target;
  const auto fault = http::read_target(head, target);
  // What is judged is what is sent: there are servers for which "/a/./b" is no "/a/b".
  out.request.target = out.target = policy::canonical_target(target.origin);
  if (fault != http::TargetFault::None || !is_of_connection(target, origin)) {
    out.verdict = denied(Reason::AuthorityMismatch);
    out.nameless = fault == http::TargetFault::None && !target.authority;
    return out;
  }
  // A tunnel to somewhere is a connection that nobody has judged.
  if (target.form == http::TargetForm::Authority) {
    out.verdict = denied(Reason::ProtocolUnsupported);
    return out;
  }
  if (!origin.host && names_the_address(target, origin)) {
    out.verdict = judge.ask(out.request);
    return out;
  }
  out.request.authority = dns::Name::parse(target.authority->host);
  out.verdict = out.request.authority && origin.host ? judge.ask(out.request)
                                                     : denied(Reason::AuthorityMismatch);
  return out;
}

JudgedRequest judge_proxy_request(const Judge& judge, const Endpoint& door,
                                  const http::RequestHead& head) {
  JudgedRequest out;
  out.request.method = head.method;
  http::RequestTarget target;
  const auto fault = http::read_target(head, target);
  out.request.target = out.target = policy::canonical_target(target.origin);
  const bool plain = target.form == http::TargetForm::Absolute && target.scheme == "http";
  if (fault != http::TargetFault::None || !plain) {
    out.request.address = door.address;
    out.request.port = door.port;
    out.verdict = denied(Reason::ProtocolUnsupported);
    return out;
  }
  out.request.port = target.authority->port.value_or(80);
  out.request.address = IpAddress::parse(target.authority->host);
  if (!out.request.address) out.request.host = dns::Name::parse(target.authority->host);
  out.verdict = judge.ask(out.request);
  return out;
}

Event malformed_request(const HttpOrigin& origin, uint64_t flow, std::string detail) {
  policy::Request request;
  request.host = origin.host;
  request.address = origin.to.address;
  request.port = origin.to.port;
  Event event = Judge::describe(EventKind::Http, request, denied(Reason::ProtocolUnsupported));
  event.flow = flow;
  event.detail = std::move(detail);
  return event;
}

http::Refusal refusal_of(const JudgedRequest& judged) {
  http::Refusal refusal;
  const Reason reason = judged.verdict.decision.reason;
  refusal.reason = policy::reason_word(reason);
  refusal.message = "the sandbox's network policy refuses this request";
  if (reason == Reason::AskUser)
    refusal.message = "a rule leaves this request to a person, and nobody has allowed it";
  if (reason == Reason::AuthorityMismatch)
    refusal.message = "the request names another host than the connection is for";
  if (reason == Reason::AmbiguousPath)
    refusal.message = "servers may differ on what this path is, so no rule can judge it";
  if (reason == Reason::ProtocolUnsupported)
    refusal.message = "the sandbox's proxy carries no such request";
  if (reason == Reason::AuthorityMismatch && judged.nameless)
    refusal.message = "the request names no host, and the connection's address may be many's";
  refusal.details.emplace_back("host", where(judged.request));
  if (!judged.verdict.decision.rule.empty())
    refusal.details.emplace_back("rule", judged.verdict.decision.rule);
  if (const auto allow = suggestion(judged.request, judged.verdict.decision))
    refusal.details.emplace_back("allow", *allow);
  if (!judged.verdict.near_miss.empty())
    refusal.details.emplace_back("note", judged.verdict.near_miss);
  return refusal;
}

http::Refusal failure_of(const HttpOrigin& origin, Reason reason, const std::string& detail) {
  http::Refusal refusal;
  refusal.status = reason == Reason::TimedOut ? 504 : 502;
  refusal.reason = policy::reason_word(reason);
  const std::string host = origin.name();
  refusal.message = host + ": " + detail;
  refusal.details.emplace_back("host", host);
  return refusal;
}

}
