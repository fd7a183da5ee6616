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
    case Reason::PersonalData:
      return "personal_data";
    case Reason::Unreadable:
      return "unreadable";
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

}
