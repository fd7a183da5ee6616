#pragma once
// From a network as it is asked for (proto/network.h) to the policy that decides. The daemon checks
// with this what a client sends, the sandbox process enforces what it makes, and `mvm policy
// explain` asks it.

#include <optional>
#include <string>
#include <string_view>

#include "mvm/policy/policy.h"
#include "mvm/proto/network.h"

namespace mvm::policy {

// Throws Error{Invalid} that names the entry and the forms it could have.
Policy compile(const proto::NetworkConfig& config);

std::optional<Outcome> parse_outcome(std::string_view word);  // "allow", "deny", "ask"
std::string_view outcome_word(Outcome outcome) noexcept;

struct Resolver {
  IpAddress address;
  uint16_t port = 53;
};
std::optional<Resolver> parse_resolver(std::string_view text);  // "9.9.9.9:53", "[2620:fe::fe]:53"

// ---- complaints about one word, or nothing. They say which forms there are.
std::optional<std::string> host_complaint(std::string_view text);
std::optional<std::string> range_complaint(std::string_view text);
std::optional<std::string> endpoint_complaint(std::string_view text);
std::optional<std::string> resolver_complaint(std::string_view text);

}
