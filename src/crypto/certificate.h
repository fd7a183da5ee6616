#pragma once
// Makes X.509 certificates (RFC 5280): v3, P-256, a random serial, SHA-256. What the three kinds of
// an authority have in common; what is different they add.

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/ip.h"
#include "mvm/crypto/authority.h"

#include "openssl.h"

namespace mvm::crypto {

KeyPtr make_key();

// A DNS name or an address as it stands in certificates. `name` has been checked by the caller.
GeneralNamePtr dns_name(std::string_view name);
GeneralNamePtr address_name(const IpAddress& address);
GeneralNamePtr range_name(const IpPrefix& range);  // address and mask, for name constraints

class CertificateBuilder {
 public:
  // `issuer`: nothing for one that signs itself.
  CertificateBuilder(std::string_view common_name, EVP_PKEY* key, X509* issuer);
  CertificateBuilder& valid(Time from, Time until);
  // By its configuration text ("critical,CA:TRUE"); never with text from outside.
  CertificateBuilder& add(int nid, const char* value);
  CertificateBuilder& alternative_name(GeneralNamePtr name);
  CertificateBuilder& constraints(const AuthorityScope& scope);
  CertificatePtr sign(EVP_PKEY* issuer_key);

 private:
  CertificatePtr certificate_;
  X509* issuer_;
};

std::string to_pem(X509* certificate);

}
