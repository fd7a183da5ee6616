#include "interception.h"

namespace mvm::egress {
namespace {

std::shared_ptr<const crypto::TrustStore> trust_of(const Settings& settings) {
  auto trust = settings.trust ? settings.trust : crypto::TrustStore::system();
  if (settings.extra_authorities.empty()) return trust;
  return crypto::TrustStore::with(trust, settings.extra_authorities, "the extra authorities");
}

// A constraint covers what is below a name (RFC 5280 §4.2.1.10).
std::string constraint_of(const policy::HostPattern& pattern) {
  std::string host = pattern.text();
  if (host.starts_with("*.")) host.erase(0, 2);
  return host;
}

}

Interception::Interception(const Settings& settings, const crypto::AuthorityScope& scope)
    : authority_(settings.name, scope, std::chrono::system_clock::now()),
      servers_(trust_of(settings)) {}

std::unique_ptr<Interception> Interception::for_policy(const Settings& settings) {
  crypto::AuthorityScope scope;
  scope.any_name = settings.certify_any_name;
  for (const policy::Route& route : settings.policy.routes)
    scope.names.push_back(constraint_of(route.host));
  for (const policy::InspectRule& rule : settings.policy.inspect) {
    if (!rule.inspect) continue;
    if (rule.host)
      scope.names.push_back(constraint_of(*rule.host));
    else
      scope.any_name = true;
  }
  if (scope.names.empty() && !scope.any_name) return nullptr;
  return std::unique_ptr<Interception>(new Interception(settings, scope));
}

std::shared_ptr<const crypto::Leaf> Interception::leaf(const std::string& host) {
  return authority_.leaf(host, std::chrono::system_clock::now());
}

}
