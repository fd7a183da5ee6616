#pragma once
// Who may talk to whom. A policy is a value; decide() is the one function that judges, for DNS,
// connections, TLS and HTTP alike, and for `mvm policy explain`. Pure: same question, same answer.
//
// Denials first. Then rules are asked in order: routes, then hosts. The first that matches decides;
// none is a denial.
// An address that is not public needs a range rule besides, whatever its name was allowed to do.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/ip.h"
#include "mvm/dns/name.h"
#include "mvm/policy/pattern.h"
#include "mvm/policy/reason.h"

namespace mvm::policy {

enum class Outcome { Allow, Deny, Ask };

// Whatever crosses the connection is relayed as it is; the name in the TLS handshake is checked.
struct HostRule {
  std::string id;
  HostPattern host;
  std::vector<uint16_t> ports;  // empty: 80 and 443
};

// What an HTTP request may do at a host; its connections are inspected. A route without rules says
// the same of every request, so it judges connections as they are.
struct RouteRule {
  std::string id;
  std::string method;  // "GET"; "*" is every method
  PathPattern path;
  Outcome outcome = Outcome::Allow;
};
struct Route {
  std::string id;
  HostPattern host;
  std::vector<uint16_t> ports;  // empty: 80 and 443
  std::vector<RouteRule> rules;
  // For requests that no rule matches; nothing: the rules behind this route decide.
  std::optional<Outcome> otherwise = Outcome::Deny;
};

// Opens a range of addresses: by themselves, and for names that resolve to them.
struct RangeRule {
  std::string id;
  IpPrefix range;
  std::vector<uint16_t> ports;  // empty: all
};

// Whether admitted connections are looked into although no route asks for it. Admits nothing.
struct InspectRule {
  std::optional<HostPattern> host;  // nothing: every name, and addresses without one
  std::vector<uint16_t> ports;      // empty: all
  bool inspect = true;              // false: an exception from the rules behind
};

// Refuses a host whatever the rules below say; a range is refused as a RangeRule would open it.
struct HostDenial {
  std::string id;
  HostPattern host;
  std::vector<uint16_t> ports;  // empty: all
};

struct Policy {
  std::vector<HostDenial> denied_hosts;
  std::vector<RangeRule> denied_ranges;
  std::vector<Route> routes;
  std::vector<HostRule> hosts;
  std::vector<RangeRule> ranges;
  std::vector<InspectRule> inspect;  // the first that matches decides
};

// As much as is known when the question comes up; what is not yet known might turn out well.
struct Request {
  std::optional<dns::Name> host;         // what the guest resolved; nothing when it used an address
  std::optional<IpAddress> address;      // where the connection would go
  std::optional<uint16_t> port;          // nothing: a DNS query
  std::optional<dns::Name> server_name;  // of the TLS handshake
  std::optional<dns::Name> authority;    // Host or :authority, without its port
  std::string method;                    // empty: no request yet
  std::string target;                    // origin form
};

struct Decision {
  Outcome outcome = Outcome::Deny;
  Reason reason = Reason::PolicyDenied;
  std::string rule;      // the id of the rule that decided; empty when none matched
  bool inspect = false;  // allowed as far as it is known: each request has to be judged
};

Decision decide(const Policy& policy, const Request& request);

// The flag that would admit exactly what was refused: `--allow-host example.com:8443`. Nothing
// where no rule can.
std::optional<std::string> suggestion(const Request& request, const Decision& decision);

// Why the rule that looks as if it covered what was refused does not: "*.example.com" for
// example.com, or the reverse. Empty where there is none.
std::string near_miss(const Policy& policy, const Request& request, const Decision& decision);

// ---- rules from text, as flags and mvm.toml spell them
// -------------------------------------------- Each returns nothing for a text that is none; the
// forms are in the complaints of the callers.

std::optional<HostRule> parse_host_rule(std::string_view text);    // "*.example.com:8443"
std::optional<RangeRule> parse_range_rule(std::string_view text);  // "10.1.0.0/16:5432", "[::1]:80"
// "GET https://example.com:8443/v1/**". Requests that it does not name are left to the other rules.
std::optional<Route> parse_endpoint(std::string_view text);

}
