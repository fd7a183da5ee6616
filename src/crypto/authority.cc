#include "mvm/crypto/authority.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "mvm/base/text.h"
#include "mvm/crypto/random.h"
#include "mvm/dns/name.h"

#include "certificate.h"
#include "leaf.h"

namespace mvm::crypto {

namespace {

CertificatePtr shared(X509* certificate) {
  X509_up_ref(certificate);
  return CertificatePtr(certificate);
}
KeyPtr shared(EVP_PKEY* key) {
  EVP_PKEY_up_ref(key);
  return KeyPtr(key);
}

// What a leaf can be for. A name whose last label is a number is some reader's address.
bool is_leaf_name(std::string_view host) {
  const auto name = dns::Name::parse(host);
  return name && host != "." && name->text() == host && !name->ends_in_number();
}

bool is_below(std::string_view host, std::string_view name) {
  return host == name || (host.size() > name.size() && host.ends_with(name) &&
                          host[host.size() - name.size() - 1] == '.');
}

void check(const AuthorityScope& scope) {
  if (scope.names.size() + scope.ranges.size() > kMaxScopeNames)
    throw Error(Kind::Invalid, "making a sandbox's certificate authority: more than " +
                                   std::to_string(kMaxScopeNames) + " names and ranges");
  for (const std::string& name : scope.names)
    if (!is_leaf_name(name))
      throw Error(Kind::Invalid,
                  "making a sandbox's certificate authority: no DNS name in lower case: " +
                      printable(name));
}

}

struct CertificateAuthority::Impl {
  Impl(std::string_view sandbox, const AuthorityScope& allowed, Time now)
      : scope(allowed), key(make_key()), leaf_key(make_key()) {
    check(scope);
    // Two authorities of one name must not be taken for each other: clients look up issuers by
    // subject first.
    const std::string label = std::string(sandbox.substr(0, 32)) + " " + random_id("", 8);
    const Time from = now - kClockSkew;
    const Time until = now + kAuthorityLifetime;
    const KeyPtr root_key = make_key();  // destroyed at the end of this scope
    const CertificatePtr root = CertificateBuilder("mvm root " + label, root_key.get(), nullptr)
                                    .valid(from, until)
                                    .add(NID_basic_constraints, "critical,CA:TRUE")
                                    .add(NID_key_usage, "critical,keyCertSign,cRLSign")
                                    .add(NID_subject_key_identifier, "hash")
                                    .sign(root_key.get());
    intermediate = CertificateBuilder("mvm sandbox " + label, key.get(), root.get())
                       .valid(from, until)
                       .add(NID_basic_constraints, "critical,CA:TRUE,pathlen:0")
                       .add(NID_key_usage, "critical,keyCertSign,cRLSign")
                       .add(NID_ext_key_usage, "serverAuth")
                       .add(NID_subject_key_identifier, "hash")
                       .add(NID_authority_key_identifier, "keyid:always")
                       .constraints(scope)
                       .sign(root_key.get());
    root_pem = to_pem(root.get());
    intermediate_pem = to_pem(intermediate.get());
  }

  GeneralNamePtr certified_name(std::string_view host) const {
    if (const auto address = IpAddress::parse(host)) {
      if (address->text() != host) return nullptr;
      for (const IpPrefix& range : scope.ranges)
        if (range.contains(*address)) return address_name(*address);
      return nullptr;
    }
    if (!is_leaf_name(host)) return nullptr;
    if (scope.any_name) return dns_name(host);
    for (const std::string& name : scope.names)
      if (is_below(host, name)) return dns_name(host);
    return nullptr;
  }

  std::shared_ptr<const Leaf> issue(std::string_view host, Time now) const {
    GeneralNamePtr name = certified_name(host);
    if (!name) return nullptr;
    // An address as a common name would be judged by the constraints on DNS names.
    const bool is_name = name->type == GEN_DNS;
    CertificatePtr made =
        CertificateBuilder(is_name ? host : "an address", leaf_key.get(), intermediate.get())
            .valid(now - kClockSkew, now + kLeafLifetime)
            .add(NID_basic_constraints, "critical,CA:FALSE")
            .add(NID_key_usage, "critical,digitalSignature")
            .add(NID_ext_key_usage, "serverAuth")
            .add(NID_subject_key_identifier, "hash")
            .add(NID_authority_key_identifier, "keyid:always")
            .alternative_name(std::move(name))
            .sign(key.get());
    return std::make_shared<Leaf>(std::string(host), std::move(made), shared(intermediate.get()),
                                  shared(leaf_key.get()));
  }

  struct Cached {
    std::shared_ptr<const Leaf> leaf;
    Time issued;
  };

  AuthorityScope scope;
  KeyPtr key;
  // One key for all leaves. A key a host would cost another 20 microseconds and a kilobyte each,
  // and protect nothing: whoever reads one in this process reads all, and the guest trusts them
  // alike.
  KeyPtr leaf_key;
  CertificatePtr intermediate;
  std::string root_pem;
  std::string intermediate_pem;
  std::list<Cached> cache;                                                    // last used first
  std::unordered_map<std::string_view, std::list<Cached>::iterator> by_host;  // views Leaf::host
};

CertificateAuthority::CertificateAuthority(std::string_view sandbox, const AuthorityScope& scope,
                                           Time now)
    : impl_(std::make_unique<Impl>(sandbox, scope, now)) {}
CertificateAuthority::~CertificateAuthority() = default;
CertificateAuthority::CertificateAuthority(CertificateAuthority&&) noexcept = default;
CertificateAuthority& CertificateAuthority::operator=(CertificateAuthority&&) noexcept = default;

const std::string& CertificateAuthority::root_pem() const noexcept { return impl_->root_pem; }
const std::string& CertificateAuthority::intermediate_pem() const noexcept {
  return impl_->intermediate_pem;
}

std::shared_ptr<const Leaf> CertificateAuthority::leaf(std::string_view host, Time now) {
  Impl& impl = *impl_;
  if (const auto known = impl.by_host.find(host); known != impl.by_host.end()) {
    impl.cache.splice(impl.cache.begin(), impl.cache, known->second);
    // A clock that has been set back may be before its first day.
    const Time issued = known->second->issued;
    if (now < issued + kLeafLifetime / 2 && now > issued - kClockSkew) return known->second->leaf;
    impl.by_host.erase(known);
    impl.cache.pop_front();
  }
  std::shared_ptr<const Leaf> made = impl.issue(host, now);
  if (!made) return nullptr;
  if (impl.cache.size() == kCachedLeaves) {
    impl.by_host.erase(impl.cache.back().leaf->host);
    impl.cache.pop_back();
  }
  impl.cache.push_front({made, now});
  impl.by_host.emplace(made->host, impl.cache.begin());
  return made;
}

std::string chain_pem(const Leaf& leaf) {
  return to_pem(leaf.certificate.get()) + to_pem(leaf.intermediate.get());
}

}
