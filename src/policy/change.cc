#include "mvm/policy/change.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::policy {
namespace {

std::string port_text(const std::vector<uint16_t>& ports) {
  return ports.empty() ? "" : ":" + std::to_string(ports.front());
}

std::string range_text(const RangeRule& rule) {
  std::string range = rule.range.length() == rule.range.address().bits()
                          ? rule.range.address().text()
                          : rule.range.text();
  if (rule.ports.empty()) return range;
  return (rule.range.address().is_v4() ? range : "[" + range + "]") + port_text(rule.ports);
}

std::string endpoint_text(const Route& route, bool https) {
  const RouteRule& rule = route.rules.front();
  return rule.method + (https ? " https://" : " http://") + route.host.text() +
         port_text(route.ports) + rule.path.text();
}

bool is_https(std::string_view endpoint) {
  return endpoint.substr(endpoint.find(' ') + 1).starts_with("https://");
}

void take_out(std::vector<std::string>& rules, const std::string& rule) { std::erase(rules, rule); }

void add_to(std::vector<std::string>& rules, std::vector<std::string>& opposite,
            const std::vector<std::string>& fresh) {
  for (const std::string& rule : fresh) {
    take_out(rules, rule);
    take_out(opposite, rule);
    rules.insert(rules.begin(), rule);
  }
}

RuleWord checked(const std::string& rule) {
  auto word = parse_rule(rule);
  if (!word) throw Error(Kind::Invalid, *rule_complaint(rule));
  return *word;
}

}

std::optional<RuleWord> parse_rule(std::string_view text) {
  if (const auto host = parse_host_rule(text))
    return RuleWord{RuleKind::Host, host->host.text() + port_text(host->ports)};
  if (const auto range = parse_range_rule(text))
    return RuleWord{RuleKind::Range, range_text(*range)};
  if (const auto route = parse_endpoint(text))
    return RuleWord{RuleKind::Endpoint, endpoint_text(*route, is_https(text))};
  return std::nullopt;
}

std::optional<std::string> rule_complaint(std::string_view text) {
  if (parse_rule(text)) return std::nullopt;
  return "'" + printable(text, 80) +
         "' is neither a host (example.com, *.example.com, example.com:8443), nor a range of "
         "addresses (10.1.0.0/16, 10.1.2.3:5432), nor an endpoint (\"GET "
         "https://example.com/v1/**\")";
}

std::string_view suggested_rule(std::string_view flag) {
  std::string_view rule = flag.substr(std::min(flag.find(' '), flag.size() - 1) + 1);
  if (rule.size() >= 2 && rule.starts_with('\'') && rule.ends_with('\''))
    rule = rule.substr(1, rule.size() - 2);
  return rule;
}

proto::PolicyChanges changed(proto::PolicyChanges changes, const proto::PolicyChanges& add) {
  add_to(changes.allow, changes.deny, add.allow);
  add_to(changes.deny, changes.allow, add.deny);
  return changes;
}

std::optional<HostPattern> inspected_host(std::string_view rule) {
  if (parse_host_rule(rule) || parse_range_rule(rule) || !is_https(rule)) return std::nullopt;
  const auto route = parse_endpoint(rule);
  return route ? std::optional(route->host) : std::nullopt;
}

void apply(const proto::PolicyChanges& changes, Policy& policy) {
  std::vector<Route> first;
  std::vector<HostDenial> hosts;
  std::vector<RangeRule> ranges;
  for (const std::string& rule : changes.deny) {
    const std::string id = "deny " + rule;
    switch (checked(rule).kind) {
      case RuleKind::Host: {
        const auto host = parse_host_rule(rule);
        hosts.push_back({id, host->host, host->ports});
        break;
      }
      case RuleKind::Range: {
        auto range = *parse_range_rule(rule);
        range.id = id;
        ranges.push_back(std::move(range));
        break;
      }
      case RuleKind::Endpoint: {
        auto route = *parse_endpoint(rule);
        route.id = route.rules.front().id = id;
        route.rules.front().outcome = Outcome::Deny;
        first.push_back(std::move(route));
        break;
      }
    }
  }
  for (const std::string& rule : changes.allow) {
    const std::string id = "allow " + rule;
    switch (checked(rule).kind) {
      case RuleKind::Host: {
        const auto host = parse_host_rule(rule);
        first.push_back({id, host->host, host->ports, {}, Outcome::Allow});
        break;
      }
      case RuleKind::Range: {
        auto range = *parse_range_rule(rule);
        range.id = id;
        policy.ranges.insert(policy.ranges.begin(), std::move(range));
        break;
      }
      case RuleKind::Endpoint: {
        auto route = *parse_endpoint(rule);
        route.id = route.rules.front().id = id;
        first.push_back(std::move(route));
        break;
      }
    }
  }
  policy.denied_hosts.insert(policy.denied_hosts.begin(), hosts.begin(), hosts.end());
  policy.denied_ranges.insert(policy.denied_ranges.begin(), ranges.begin(), ranges.end());
  policy.routes.insert(policy.routes.begin(), first.begin(), first.end());
}

}
