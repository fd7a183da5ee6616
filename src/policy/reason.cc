#include "mvm/policy/reason.h"

namespace mvm::policy {

std::string_view reason_word(Reason reason) noexcept {
  switch (reason) {
    case Reason::Allowed:
      return "allowed";
    case Reason::PolicyDenied:
      return "policy_denied";
    case Reason::AskUser:
      return "ask_user";
    case Reason::CloudMetadata:
      return "cloud_metadata";
    case Reason::Loopback:
      return "loopback";
    case Reason::LinkLocal:
      return "link_local";
    case Reason::PrivateRange:
      return "private_range";
    case Reason::SharedAddressSpace:
      return "shared_address_space";
    case Reason::SpecialPurpose:
      return "special_purpose";
    case Reason::EmbeddedRestricted:
      return "embedded_restricted";
    case Reason::RouteDenied:
      return "route_denied";
    case Reason::AmbiguousPath:
      return "ambiguous_path";
    case Reason::SniMismatch:
      return "sni_mismatch";
    case Reason::AuthorityMismatch:
      return "authority_mismatch";
    case Reason::ProtocolUnsupported:
      return "protocol_unsupported";
    case Reason::RateLimited:
      return "rate_limited";
    case Reason::ResourceExhausted:
      return "resource_exhausted";
    case Reason::AiBudget:
      return "ai_budget_exhausted";
    case Reason::SecretMisuse:
      return "secret_misuse";
    case Reason::SecretLeak:
      return "secret_leak";
    case Reason::SecretRequired:
      return "secret_required";
    case Reason::Unreadable:
      return "unreadable";
    case Reason::NotRecorded:
      return "not_recorded";
    case Reason::PersonalData:
      return "personal_data";
    case Reason::DnsFailed:
      return "dns_failed";
    case Reason::UpstreamUnreachable:
      return "upstream_unreachable";
    case Reason::UpstreamTls:
      return "upstream_tls";
    case Reason::TimedOut:
      return "timed_out";
  }
  return "unknown";
}

std::optional<Reason> parse_reason(std::string_view word) noexcept {
  for (int i = 0; i <= static_cast<int>(Reason::TimedOut); ++i)
    if (reason_word(static_cast<Reason>(i)) == word) return static_cast<Reason>(i);
  return std::nullopt;
}

}
