#include "mvm/policy/policy.h"

#include <algorithm>

#include "mvm/policy/address.h"
#include "mvm/policy/inspect.h"

namespace mvm::policy {
namespace {

Reason reason_of(Outcome outcome, Reason denied) noexcept {
  switch (outcome) {
    case Outcome::Allow:
      return Reason::Allowed;
    case Outcome::Ask:
      return Reason::AskUser;
    case Outcome::Deny:
      break;
  }
  return denied;
}

Decision deny(Reason reason, std::string rule = {}) {
  return {Outcome::Deny, reason, std::move(rule), false};
}

bool has_port(const std::vector<uint16_t>& ports, std::optional<uint16_t> port) {
  if (!port) return true;
  if (ports.empty()) return port == 80 || port == 443;
  return std::ranges::find(ports, *port) != ports.end();
}

bool method_matches(const RouteRule& rule, const std::string& method) {
  return rule.method == "*" || rule.method == method;
}

// What one route says of a request; nothing: the next rule is asked. `inspect` becomes true when
// what it says depends on the request.
std::optional<Decision> ask_route(const Route& route, const Request& request, const Path& path,
                                  bool& inspect) {
  inspect = inspect || !route.rules.empty();
  if (request.method.empty()) {
    // A connection: let it come to a request if any could pass. The gentlest outcome counts.
    for (const RouteRule& rule : route.rules)
      if (rule.outcome != Outcome::Deny)
        return Decision{Outcome::Allow, Reason::Allowed, route.id, true};
  } else {
    for (const RouteRule& rule : route.rules)
      if (method_matches(rule, request.method) && rule.path.matches(path))
        return Decision{rule.outcome, reason_of(rule.outcome, Reason::RouteDenied), rule.id, true};
  }
  if (!route.otherwise) return std::nullopt;
  return Decision{*route.otherwise, reason_of(*route.otherwise, Reason::RouteDenied), route.id,
                  inspect};
}

Decision ask_rules(const Policy& policy, const Request& request) {
  const bool has_request = !request.method.empty();
  const auto path = has_request ? normal_path(request.target) : Path{};
  bool inspect = false;
  for (const Route& route : policy.routes) {
    if (!route.host.matches(*request.host) || !has_port(route.ports, request.port)) continue;
    // A rule that judges paths must not guess what this one is.
    if (!path) return deny(Reason::AmbiguousPath, route.id);
    auto decision = ask_route(route, request, *path, inspect);
    // Without a port yet, another route for this host may be the one.
    if (decision && (request.port || decision->outcome != Outcome::Deny)) return *decision;
  }
  for (const HostRule& rule : policy.hosts)
    if (rule.host.matches(*request.host) && has_port(rule.ports, request.port))
      return {Outcome::Allow, Reason::Allowed, rule.id, inspect};
  return deny(Reason::PolicyDenied);
}

const RangeRule* find_range(const std::vector<RangeRule>& rules, const IpAddress& address,
                            std::optional<uint16_t> port) {
  for (const RangeRule& rule : rules)
    if (rule.range.contains(address) && (rule.ports.empty() || has_port(rule.ports, port)))
      return &rule;
  return nullptr;
}

// The id of the denial that is for this request. One for a port leaves the name's other ports.
const std::string* find_denial(const Policy& policy, const Request& request) {
  for (const HostDenial& rule : policy.denied_hosts)
    if (request.host && rule.host.matches(*request.host) &&
        (rule.ports.empty() || (request.port && has_port(rule.ports, request.port))))
      return &rule.id;
  if (!request.address) return nullptr;
  const RangeRule* range = find_range(policy.denied_ranges, *request.address, request.port);
  // What would reach the same host another way.
  if (const auto inner = embedded_v4(*request.address); range == nullptr && inner)
    range = find_range(policy.denied_ranges, *inner, request.port);
  return range == nullptr ? nullptr : &range->id;
}

// Of an address that the rules for its name, if it has one, admit.
Decision judge_address(const Policy& policy, const Request& request, Decision decision) {
  const auto restricted = restriction(*request.address);
  const RangeRule* range = find_range(policy.ranges, *request.address, request.port);
  if (restricted && (range == nullptr || !can_be_opened(*restricted))) return deny(*restricted);
  if (request.host) return decision;
  if (range == nullptr) return deny(Reason::PolicyDenied);
  return {Outcome::Allow, Reason::Allowed, range->id, false};
}

}

bool to_be_inspected(const Policy& policy, const Request& request) {
  for (const InspectRule& rule : policy.inspect) {
    const bool host = !rule.host || (request.host && rule.host->matches(*request.host));
    const bool port = rule.ports.empty() || has_port(rule.ports, request.port);
    if (host && port) return rule.inspect;
  }
  return false;
}

Decision decide(const Policy& policy, const Request& request) {
  if (request.host && request.server_name && *request.server_name != *request.host)
    return deny(Reason::SniMismatch);
  if (request.host && request.authority && *request.authority != *request.host)
    return deny(Reason::AuthorityMismatch);
  if (const std::string* id = find_denial(policy, request)) return deny(Reason::PolicyDenied, *id);
  Decision decision = deny(Reason::PolicyDenied);
  if (request.host) {
    decision = ask_rules(policy, request);
    if (decision.outcome == Outcome::Deny) return decision;
  }
  if (request.address) decision = judge_address(policy, request, std::move(decision));
  if (decision.outcome != Outcome::Deny && to_be_inspected(policy, request))
    decision.inspect = true;
  return decision;
}

}
