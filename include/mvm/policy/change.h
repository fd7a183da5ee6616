#pragma once
// Rules for a sandbox that runs already, in the words of `mvm policy allow` and `deny`.

#include <optional>
#include <string>
#include <string_view>

#include "mvm/policy/policy.h"
#include "mvm/proto/policy.h"

namespace mvm::policy {

enum class RuleKind { Host, Range, Endpoint };

// One rule as its author wrote it, in its one spelling: so that a rule can be found again.
struct RuleWord {
  RuleKind kind = RuleKind::Host;
  std::string text;
};
// "example.com:8443", "10.1.0.0/16", "GET https://example.com/v1/**"
std::optional<RuleWord> parse_rule(std::string_view text);
std::optional<std::string> rule_complaint(std::string_view text);

// The value of a flag that suggestion() gave: "--allow-host example.com:443" is "example.com:443".
std::string_view suggested_rule(std::string_view flag);

// `changes` with `add`: the newest first, each once, and none beside its own opposite.
proto::PolicyChanges changed(proto::PolicyChanges changes, const proto::PolicyChanges& add);

// Puts the changes before the rules of `policy`, denials first. What they admit or refuse of a host
// without a path is its connections as they are, whatever its routes say. Throws Error{Invalid}.
void apply(const proto::PolicyChanges& changes, Policy& policy);

// The host whose requests an endpoint judges, which takes a look into TLS; nothing for other rules
// and for plain HTTP.
std::optional<HostPattern> inspected_host(std::string_view rule);

}
