#pragma once
// What inspected TLS connections of a sandbox share: its certificate authority, and whom it
// believes.

#include <memory>
#include <string>

#include "mvm/crypto/tls.h"
#include "mvm/egress/proxy.h"

namespace mvm::egress {

class Interception {
 public:
  // Nothing when no rule of the policy looks into connections.
  static std::unique_ptr<Interception> for_policy(const Settings& settings);

  crypto::TlsServerContext& guests() noexcept { return guests_; }
  crypto::TlsClientContext& servers() noexcept { return servers_; }
  // Whether leaf() has one for every name that the pattern matches.
  bool certifies(const policy::HostPattern& hosts) const;
  // Nothing for a name that was not in the policy when the sandbox began (Settings).
  std::shared_ptr<const crypto::Leaf> leaf(const std::string& host);
  // Whom `host` is believed by, where that is not servers()' own.
  std::shared_ptr<const crypto::TrustStore> trust_of(const std::optional<dns::Name>& host) const;
  const std::string& root_pem() const noexcept { return authority_.root_pem(); }

 private:
  Interception(const Settings& settings, const crypto::AuthorityScope& scope);

  crypto::AuthorityScope scope_;
  crypto::CertificateAuthority authority_;
  crypto::TlsServerContext guests_;
  crypto::TlsClientContext servers_;
  std::vector<HostTrust> trust_by_host_;
};

}
