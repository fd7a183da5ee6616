#include "mvm/policy/compile.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/authorities.h"

namespace mvm::policy {
namespace {

constexpr std::array<std::pair<Outcome, std::string_view>, 3> kOutcomes{
    {{Outcome::Allow, "allow"}, {Outcome::Deny, "deny"}, {Outcome::Ask, "ask"}}};

[[noreturn]] void refuse(const std::string& where, const std::string& complaint) {
  throw Error(Kind::Invalid, where + ": " + complaint);
}

std::string quoted(std::string_view text) { return "\"" + printable(text, 80) + "\""; }

void check(const std::string& where, const std::optional<std::string>& complaint) {
  if (complaint) refuse(where, *complaint);
}

// An absent rule of a route that is to leave a request to the rules behind has no outcome.
std::optional<Outcome> otherwise_of(const std::string& where, const std::string& word) {
  if (word.empty()) return std::nullopt;
  const auto outcome = parse_outcome(word);
  if (!outcome) refuse(where + ".otherwise", quoted(word) + " is none of allow, deny, ask");
  return outcome;
}

RouteRule rule_of(const std::string& where, const proto::NetworkRouteRule& from,
                  const std::string& fallback_id) {
  const auto path = PathPattern::parse(from.path);
  if (!path)
    refuse(where + ".path", quoted(from.path) + " is not a path pattern such as /v1/** or /a/*/b");
  const auto outcome = parse_outcome(from.outcome);
  if (!outcome) refuse(where + ".outcome", quoted(from.outcome) + " is none of allow, deny, ask");
  const bool is_method =
      from.method == "*" || (!from.method.empty() && std::ranges::all_of(from.method, [](char c) {
        return (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
      }));
  if (!is_method)
    refuse(where + ".method", quoted(from.method) + " is not a method such as GET, or *");
  return {from.id.empty() ? fallback_id : from.id, from.method, *path, *outcome};
}

Route route_of(const std::string& where, const proto::NetworkRoute& from,
               const std::string& fallback_id) {
  check(where + ".host", host_complaint(from.host));
  const auto host = parse_host_rule(from.host);
  if (!host->ports.empty() && !from.ports.empty())
    refuse(where + ".port", "the host names a port already");
  Route route{from.id.empty() ? fallback_id : from.id,
              host->host,
              host->ports.empty() ? from.ports : host->ports,
              {},
              otherwise_of(where, from.otherwise)};
  if (std::ranges::find(route.ports, 0) != route.ports.end())
    refuse(where + ".port", "must be from 1 to 65535");
  for (size_t i = 0; i < from.rules.size(); ++i)
    route.rules.push_back(rule_of(where + ".rules[" + std::to_string(i) + "]", from.rules[i],
                                  route.id + "/" + std::to_string(i + 1)));
  return route;
}

}

std::optional<Outcome> parse_outcome(std::string_view word) {
  for (const auto& [outcome, name] : kOutcomes)
    if (name == word) return outcome;
  return std::nullopt;
}

std::string_view outcome_word(Outcome outcome) noexcept {
  for (const auto& [value, name] : kOutcomes)
    if (value == outcome) return name;
  return "";
}

std::optional<Resolver> parse_resolver(std::string_view text) {
  if (const auto bare = IpAddress::parse(text)) return Resolver{*bare};
  const size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  std::string_view address = text.substr(0, colon);
  const bool bracketed = address.starts_with('[') && address.ends_with(']');
  if (bracketed) address = address.substr(1, address.size() - 2);
  const auto parsed = IpAddress::parse(address);
  const auto port = parse_u64(text.substr(colon + 1));
  if (!parsed || parsed->is_v4() == bracketed || !port || *port == 0 || *port > 65535)
    return std::nullopt;
  return Resolver{*parsed, static_cast<uint16_t>(*port)};
}

std::optional<std::string> host_complaint(std::string_view text) {
  if (parse_host_rule(text)) return std::nullopt;
  if (parse_range_rule(text)) return quoted(text) + " is an address; those are for allow_cidr";
  return quoted(text) +
         " is not a host such as example.com, *.example.com (all below it) or example.com:8443";
}

std::optional<std::string> range_complaint(std::string_view text) {
  if (parse_range_rule(text)) return std::nullopt;
  return quoted(text) +
         " is not a range of addresses such as 10.1.0.0/16, 10.1.2.3:5432 or [fd00::/8]:443";
}

std::optional<std::string> endpoint_complaint(std::string_view text) {
  if (parse_endpoint(text)) return std::nullopt;
  return quoted(text) + " is not an endpoint such as \"GET https://example.com/v1/**\"";
}

std::optional<std::string> resolver_complaint(std::string_view text) {
  if (parse_resolver(text)) return std::nullopt;
  return quoted(text) + " is not a name server's address such as 9.9.9.9 or [2620:fe::fe]:53";
}

Policy compile(const proto::NetworkConfig& config) {
  Policy policy;
  for (const std::string& text : config.allow_endpoints) {
    check("allow_endpoints", endpoint_complaint(text));
    policy.routes.push_back(*parse_endpoint(text));
  }
  for (size_t i = 0; i < config.routes.size(); ++i)
    policy.routes.push_back(route_of("routes[" + std::to_string(i) + "]", config.routes[i],
                                     "route " + std::to_string(i + 1)));
  for (const std::string& text : config.allow_hosts) {
    check("allow_hosts", host_complaint(text));
    policy.hosts.push_back(*parse_host_rule(text));
  }
  for (const std::string& text : config.preset_hosts) {
    check("preset_hosts", host_complaint(text));
    HostRule rule = *parse_host_rule(text);
    rule.id = "preset " + config.preset + " " + text;
    policy.hosts.push_back(std::move(rule));
  }
  for (const std::string& text : config.allow_cidr) {
    check("allow_cidr", range_complaint(text));
    policy.ranges.push_back(*parse_range_rule(text));
  }
  for (const std::string& text : config.resolvers) check("resolvers", resolver_complaint(text));
  if (config.upstream_ca.size() > proto::kMaxUpstreamAuthorities)
    refuse("upstream_ca", "more than " + std::to_string(proto::kMaxUpstreamAuthorities) +
                              " entries (give one file several certificates)");
  for (const std::string& text : config.upstream_ca)
    check("upstream_ca", placed_authority_complaint(text));
  return policy;
}

}
