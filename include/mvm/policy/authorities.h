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
  std::string file;                 // PEM
};

// "*.corp.example=/etc/ssl/corp.pem", "*=/etc/ssl/corp.pem"
std::optional<AuthorityRule> parse_authority(std::string_view text);
std::optional<std::string> authority_complaint(std::string_view text);

}
