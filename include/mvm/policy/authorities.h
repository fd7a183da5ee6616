#pragma once
// Certificate authorities that some upstream servers are believed by, besides the host's own: those
// of companies, and of tests.

#include <optional>
#include <string>
#include <string_view>

#include "mvm/policy/pattern.h"

namespace mvm::policy {

struct AuthorityRule {
  std::optional<HostPattern> host;  // nothing: every host
  std::string file;                 // PEM; never empty
};

// "*.corp.example=/etc/ssl/corp.pem", "*=corp.pem"
std::optional<AuthorityRule> parse_authority(std::string_view text);
std::optional<std::string> authority_complaint(std::string_view text);
// The same of a rule that has left the folder where it was written: its path has to be absolute.
std::optional<std::string> placed_authority_complaint(std::string_view text);

}
