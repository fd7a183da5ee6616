// Rules as people write them, and as mvm proposes them.
#include "mvm/base/text.h"

#include <algorithm>

#include "mvm/policy/address.h"
#include "mvm/policy/policy.h"

namespace mvm::policy {
namespace {

std::optional<uint16_t> parse_port(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number == 0 || *number > 65535) return std::nullopt;
  return static_cast<uint16_t>(*number);
}

struct HostAndPorts {
  std::string_view host;
  std::vector<uint16_t> ports;
};

std::optional<HostAndPorts> split_port(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return HostAndPorts{text, {}};
  const auto port = parse_port(text.substr(colon + 1));
  if (!port) return std::nullopt;
  return HostAndPorts{text.substr(0, colon), {*port}};
}

// RFC 9110 §5.6.2
bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string with_port(const std::string& host, uint16_t port) {
  return host + ":" + std::to_string(port);
}

std::string range_text(const IpAddress& address, uint16_t port) {
  return with_port(address.is_v4() ? address.text() : "[" + address.text() + "]", port);
}

}

std::optional<HostRule> parse_host_rule(std::string_view text) {
  const auto parts = split_port(text);
  if (!parts) return std::nullopt;
  const auto host = HostPattern::parse(parts->host);
  if (!host) return std::nullopt;
  return HostRule{"allow-host " + std::string(text), *host, parts->ports};
}

std::optional<RangeRule> parse_range_rule(std::string_view text) {
  std::string_view range = text;
  std::vector<uint16_t> ports;
  const bool bracketed = text.starts_with('[');
  const size_t end = bracketed ? text.find(']') : text.rfind(':');
  const bool several_colons = std::ranges::count(text, ':') > 1;
  if (bracketed) {
    if (end == text.npos) return std::nullopt;
    range = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty()) {
      const auto port = rest.starts_with(':') ? parse_port(rest.substr(1)) : std::nullopt;
      if (!port) return std::nullopt;
      ports.push_back(*port);
    }
  } else if (end != text.npos && !several_colons) {
    const auto port = parse_port(text.substr(end + 1));
    if (!port) return std::nullopt;
    range = text.substr(0, end);
    ports.push_back(*port);
  }
  const auto prefix = IpPrefix::parse(range);
  if (!prefix) return std::nullopt;
  return RangeRule{"allow-cidr " + std::string(text), *prefix, std::move(ports)};
}

std::optional<Route> parse_endpoint(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == text.npos || !is_token(text.substr(0, blank))) return std::nullopt;
  std::string_view url = text.substr(blank + 1);
  const bool https = url.starts_with("https://");
  if (!https && !url.starts_with("http://")) return std::nullopt;
  url.remove_prefix(https ? 8 : 7);
  const size_t slash = std::min(url.find('/'), url.size());
  const auto parts = split_port(url.substr(0, slash));
  if (!parts) return std::nullopt;
  const auto host = HostPattern::parse(parts->host);
  const auto path = PathPattern::parse(slash == url.size() ? "/" : url.substr(slash));
  if (!host || !path) return std::nullopt;
  const std::string id = "allow-endpoint " + std::string(text);
  const uint16_t default_port = https ? 443 : 80;
  return Route{id,
               *host,
               parts->ports.empty() ? std::vector<uint16_t>{default_port} : parts->ports,
               {{id, std::string(text.substr(0, blank)), *path, Outcome::Allow}},
               std::nullopt};
}

std::optional<std::string> suggestion(const Request& request, const Decision& decision) {
  if (decision.outcome != Outcome::Deny) return std::nullopt;
  const uint16_t port = request.port.value_or(443);
  switch (decision.reason) {
    case Reason::Loopback:
    case Reason::PrivateRange:
    case Reason::SharedAddressSpace:
      return "--allow-cidr " + range_text(*request.address, port);
    case Reason::PolicyDenied:
      // What was denied by name is a decision; a flag does not undo it.
      if (!decision.rule.empty()) return std::nullopt;
      break;
    case Reason::RouteDenied:
      break;
    default:
      return std::nullopt;
  }
  if (!request.host) {
    if (!request.address) return std::nullopt;
    return "--allow-cidr " + range_text(*request.address, port);
  }
  if (!request.host->is_host() || request.host->ends_in_number()) return std::nullopt;
  if (request.method.empty()) {
    // A route that refuses a host as a whole is a decision; a flag does not undo it.
    if (decision.reason == Reason::RouteDenied) return std::nullopt;
    return "--allow-host " + with_port(request.host->text(), port);
  }
  const auto path = normal_path(request.target);
  // People paste this into a shell, and the guest chose the method: a quote would end the word.
  if (!path || !is_token(request.method) || request.method.find('\'') != std::string::npos)
    return std::nullopt;
  return "--allow-endpoint '" + request.method + (port == 80 ? " http://" : " https://") +
         with_port(request.host->text(), port) + PathPattern::exactly(*path).text() + "'";
}

std::string near_miss(const Policy& policy, const Request& request, const Decision& decision) {
  if (decision.outcome != Outcome::Deny || decision.reason != Reason::PolicyDenied ||
      !decision.rule.empty() || !request.host)
    return {};
  const auto says = [&](const std::string& id, const HostPattern& host) {
    return "rule '" + printable(id, 200) + "' does not cover it: " + host.text() + " is " +
           (host.text().starts_with("*.") ? "what is below that name, not the name itself"
                                          : "that name alone, nothing below it");
  };
  for (const Route& route : policy.routes)
    if (route.host.nearly_matches(*request.host)) return says(route.id, route.host);
  for (const HostRule& rule : policy.hosts)
    if (rule.host.nearly_matches(*request.host)) return says(rule.id, rule.host);
  return {};
}

}
