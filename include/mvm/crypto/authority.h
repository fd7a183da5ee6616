#pragma once
// One sandbox's certificate authority, by which its intercepted connections are trusted in the
// guest and nowhere else.
//
// Two levels, because a name constraint in a trust anchor is not enforced everywhere (Java 17
// ignores it), while one below the anchor is: a root without constraints, whose key is destroyed
// as soon as it has signed the one intermediate, and that intermediate, which names what its leaves
// may be for (RFC 5280 §4.2.1.10). Widening a policy by a name outside of the scope thus needs a
// new authority, and a guest that is told of its root.
//
// Keys live in this process's memory only. Not thread-safe: one loop owns an authority.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/ip.h"

namespace mvm::crypto {

// The clock is the caller's; certificates are dated by it.
using Time = std::chrono::system_clock::time_point;

// What the intermediate may sign for. Nothing in it: for nothing at all.
struct AuthorityScope {
  bool any_name = false;           // every DNS name; `names` is then not looked at
  std::vector<std::string> names;  // DNS names in lower case, each with all that is below it
  std::vector<IpPrefix> ranges;    // every address outside of them is excluded
};

inline constexpr size_t kMaxScopeNames = 4096;
inline constexpr size_t kCachedLeaves = 512;
// Dates begin this long before the present, for guests whose clock is behind.
inline constexpr std::chrono::hours kClockSkew{48};
inline constexpr std::chrono::hours kLeafLifetime{24 * 90};  // browsers refuse more than 397 days
inline constexpr std::chrono::hours kAuthorityLifetime{24 * 365 * 10};

// A certificate with its key and the chain to send with it, for TlsEngine. Immutable.
class Leaf;

class CertificateAuthority {
 public:
  // `sandbox` is for people who look at the certificate: its name is put into the subjects.
  // Throws Error{Invalid} for a name that is none and for more than kMaxScopeNames.
  CertificateAuthority(std::string_view sandbox, const AuthorityScope& scope, Time now);
  ~CertificateAuthority();
  CertificateAuthority(CertificateAuthority&&) noexcept;
  CertificateAuthority& operator=(CertificateAuthority&&) noexcept;

  // The certificate that the guest is to trust, and the one that signs (sent with each leaf).
  const std::string& root_pem() const noexcept;
  const std::string& intermediate_pem() const noexcept;

  // The certificate for one host: a DNS name in lower case or an address as IpAddress::text()
  // prints it. Never a wildcard. From the cache (the kCachedLeaves last used) while at least half
  // of its life is left. Nothing for what cannot be certified: no name, or outside of the scope.
  std::shared_ptr<const Leaf> leaf(std::string_view host, Time now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The certificate and its chain as PEM, leaf first; for tests and for people.
std::string chain_pem(const Leaf& leaf);

}
