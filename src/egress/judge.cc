#include "judge.h"

#include <algorithm>

#include "mvm/policy/address.h"
#include "mvm/policy/inspect.h"

namespace mvm::egress {

using policy::Outcome;

void Judge::replace(policy::Policy policy, Mode mode) {
  policy_ = std::move(policy);
  mode_ = mode;
}

bool Judge::opened_by_range(const IpAddress& address, std::optional<uint16_t> port) const {
  policy::Request bare;
  bare.address = address;
  bare.port = port;
  return decide(policy_, bare).outcome == Outcome::Allow;
}

Verdict Judge::ask(const policy::Request& request) const {
  Verdict verdict{decide(policy_, request)};
  // Where requests are inspected, each is judged again, and asked about then.
  verdict.admitted = verdict.decision.outcome == Outcome::Allow ||
                     (verdict.decision.outcome == Outcome::Ask && verdict.decision.inspect &&
                      request.method.empty());
  if (!verdict.admitted) verdict.near_miss = near_miss(policy_, request, verdict.decision);
  if (verdict.admitted || mode_ == Mode::Enforce) return verdict;
  // decide() may have refused the name before it came to look at the address.
  if (request.address && !opened_by_range(*request.address, request.port)) {
    if (const auto restricted = policy::restriction(*request.address)) {
      verdict.decision = {Outcome::Deny, *restricted, {}, false};
      return verdict;
    }
  }
  verdict.admitted = true;
  verdict.audited = true;
  verdict.watched = policy::to_be_inspected(policy_, request);
  return verdict;
}

std::vector<uint16_t> Judge::ports_of(const dns::Name& name) const {
  std::vector<uint16_t> ports;
  const auto take = [&](const policy::HostPattern& host, const std::vector<uint16_t>& of_rule) {
    if (!host.matches(name)) return;
    static const std::vector<uint16_t> usual{80, 443};
    for (const uint16_t port : of_rule.empty() ? usual : of_rule)
      if (std::ranges::find(ports, port) == ports.end()) ports.push_back(port);
  };
  for (const policy::Route& route : policy_.routes) take(route.host, route.ports);
  for (const policy::HostRule& rule : policy_.hosts) take(rule.host, rule.ports);
  std::erase_if(ports, [&](uint16_t port) {
    policy::Request request;
    request.host = name;
    request.port = port;
    const Verdict verdict = ask(request);
    return !verdict.admitted && !verdict.asks();
  });
  return ports;
}

std::optional<policy::HostPattern> Judge::zone_of(const dns::Name& name) const {
  std::optional<policy::HostPattern> zone;
  bool spelled_out = false;
  const auto look = [&](const policy::HostPattern& host) {
    if (!host.matches(name)) return;
    if (!host.is_zone())
      spelled_out = true;
    else if (!zone)
      zone = host;
  };
  for (const policy::Route& route : policy_.routes) look(route.host);
  for (const policy::HostRule& rule : policy_.hosts) look(rule.host);
  return spelled_out ? std::nullopt : zone;
}

std::vector<IpPrefix> Judge::open_ranges() const {
  if (mode_ == Mode::Audit)
    return {IpPrefix(IpAddress(IpAddress::V4{}), 0), IpPrefix(IpAddress(IpAddress::V6{}), 0)};
  std::vector<IpPrefix> ranges;
  for (const policy::RangeRule& rule : policy_.ranges) ranges.push_back(rule.range);
  return ranges;
}

Event Judge::describe(EventKind kind, const policy::Request& request, const Verdict& verdict) {
  Event event;
  event.time = std::chrono::system_clock::now();
  event.kind = kind;
  if (request.host) event.host = request.host->text();
  event.address = request.address;
  event.port = request.port.value_or(0);
  event.method = request.method;
  event.path = request.target.substr(0, request.target.find('?'));
  event.outcome = verdict.admitted ? Outcome::Allow : verdict.decision.outcome;
  event.reason = verdict.decision.reason;
  event.audited = verdict.audited;
  event.rule = verdict.decision.rule;
  event.suggestion = suggestion(request, verdict.decision).value_or(std::string());
  return event;
}

}
