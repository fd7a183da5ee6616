#pragma once
// Why a decision fell as it did, in one word: the same in the audit log, in `mvm policy explain`,
// in the answer that a client gets, and in metrics.

#include <optional>
#include <string_view>

namespace mvm::policy {

enum class Reason {
  Allowed,        // a rule admits it
  PolicyDenied,   // no rule admits it, or one refuses it
  AskUser,        // a rule leaves it to a person
  CloudMetadata,  // an address where clouds keep credentials
  Loopback,
  LinkLocal,
  PrivateRange,        // RFC 1918, unique local
  SharedAddressSpace,  // RFC 6598
  SpecialPurpose,      // multicast, reserved, documentation, "this network"
  EmbeddedRestricted,  // an IPv6 address that carries one of the above
  RouteDenied,         // the host is admitted, this method or path of it is not
  AmbiguousPath,       // two servers may read the path two ways
  SniMismatch,         // the TLS server name is not the name that was resolved
  AuthorityMismatch,   // Host or :authority is not the host of the connection
  ProtocolUnsupported,
  RateLimited,
  ResourceExhausted,
  AiBudget,        // the sandbox's budget for AI is used up, or cannot be kept
  SecretMisuse,    // a secret's placeholder where that secret may not go
  SecretLeak,      // a secret's value, which the guest should not have
  SecretRequired,  // a request without the secret that its host is only for
  Unreadable,      // what has to be looked into cannot be decoded
  NotRecorded,     // the audit log takes nothing, and what it must know of does not happen
  PersonalData,    // it holds personal data that may not leave, or that is not its own
  // No decisions, but what became of what was admitted.
  DnsFailed,            // no resolver gave an answer
  UpstreamUnreachable,  // no address of the host took the connection
  UpstreamTls,          // its certificate, or its TLS, is not to be trusted
  TimedOut,             // nothing came for too long
};

// "policy_denied", …
std::string_view reason_word(Reason reason) noexcept;
std::optional<Reason> parse_reason(std::string_view word) noexcept;

}
