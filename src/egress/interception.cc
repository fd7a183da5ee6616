#include "interception.h"

#include <algorithm>

namespace mvm::egress {
namespace {

std::shared_ptr<const crypto::TrustStore> common_trust(const Settings& settings) {
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
    : scope_(scope),
      authority_(settings.name, scope, std::chrono::system_clock::now()),
      servers_(common_trust(settings)),
      trust_by_host_(settings.trust_by_host) {}

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
  // What has no name is looked into only where everything is.
  if (scope.any_name)
    for (const policy::RangeRule& rule : settings.policy.ranges) scope.ranges.push_back(rule.range);
  return std::unique_ptr<Interception>(new Interception(settings, scope));
}

bool Interception::certifies(const policy::HostPattern& hosts) const {
  const std::string wanted = constraint_of(hosts);
  return scope_.any_name || std::ranges::any_of(scope_.names, [&](const std::string& name) {
           return wanted == name || wanted.ends_with("." + name);
         });
}

std::shared_ptr<const crypto::TrustStore> Interception::trust_of(
    const std::optional<dns::Name>& host) const {
  for (const HostTrust& rule : trust_by_host_)
    if (!rule.host || (host && rule.host->matches(*host))) return rule.trust;
  return nullptr;
}

std::shared_ptr<const crypto::Leaf> Interception::leaf(const std::string& host) {
  return authority_.leaf(host, std::chrono::system_clock::now());
}

}
