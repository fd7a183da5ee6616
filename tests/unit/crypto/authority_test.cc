#include "mvm/crypto/authority.h"

#include <set>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

#include "x509.h"

namespace mvm::crypto {
namespace {

using std::chrono::hours;

const Time kNow = Time(std::chrono::seconds(1'800'000'000));

time_t seconds(Time time) { return std::chrono::system_clock::to_time_t(time); }

CertificateAuthority authority(const AuthorityScope& scope) { return {"web", scope, kNow}; }
CertificateAuthority for_names(std::vector<std::string> names) {
  return authority({.names = std::move(names)});
}

std::string verified(CertificateAuthority& by, const std::string& host, Time at = kNow) {
  const auto leaf = by.leaf(host, kNow);
  return leaf ? verify(by.root_pem(), chain_pem(*leaf), host, seconds(at)) : "no leaf";
}

std::string serial_of(X509* certificate) {
  const ASN1_INTEGER* number = X509_get0_serialNumber(certificate);
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(number)),
          static_cast<size_t>(ASN1_STRING_length(number))};
}
std::string serial_of(const Leaf& leaf) {
  return serial_of(read_certificate(chain_pem(leaf)).get());
}

std::string shown_name(X509* certificate) {
  char text[256];
  X509_NAME_oneline(X509_get_subject_name(certificate), text, sizeof text);
  return text;
}

bool is_critical(X509* certificate, int nid) {
  const int at = X509_get_ext_by_NID(certificate, nid, -1);
  return at >= 0 && X509_EXTENSION_get_critical(X509_get_ext(certificate, at)) != 0;
}

// What the intermediate's constraints say of a certificate that some other authority made.
int constraint_verdict(const CertificateAuthority& judge, const std::string& host) {
  CertificateAuthority other = authority(
      {.any_name = true, .ranges = {*IpPrefix::parse("0.0.0.0/0"), *IpPrefix::parse("::/0")}});
  const Certificate leaf = read_certificate(chain_pem(*other.leaf(host, kNow)));
  X509_check_purpose(leaf.get(), -1, 0);  // makes OpenSSL read the extensions
  const Certificate intermediate = read_certificate(judge.intermediate_pem());
  auto* constraints = static_cast<NAME_CONSTRAINTS*>(
      X509_get_ext_d2i(intermediate.get(), NID_name_constraints, nullptr, nullptr));
  const int verdict =
      constraints == nullptr ? X509_V_OK : NAME_CONSTRAINTS_check(leaf.get(), constraints);
  NAME_CONSTRAINTS_free(constraints);
  return verdict;
}

TEST(Authority, LeavesPassTheStrictestVerification) {
  CertificateAuthority ca =
      authority({.names = {"example.com"},
                 .ranges = {*IpPrefix::parse("192.0.2.0/24"), *IpPrefix::parse("2001:db8::/32")}});
  for (const char* host : {"example.com", "api.example.com", "a.b.c.example.com", "_x.example.com",
                           "192.0.2.7", "2001:db8::7"})
    EXPECT_EQ(verified(ca, host), "ok") << host;
}

TEST(Authority, AHostNameMayBeLongerThanACommonName) {
  CertificateAuthority ca = for_names({"example.com"});
  const std::string host = std::string(60, 'a') + "." + std::string(60, 'b') + "." +
                           std::string(60, 'c') + ".example.com";
  EXPECT_EQ(verified(ca, host), "ok");
}

TEST(Authority, LeavesAreForOneNameOnly) {
  CertificateAuthority ca = for_names({"example.com"});
  const auto leaf = ca.leaf("example.com", kNow);
  EXPECT_EQ(verify(ca.root_pem(), chain_pem(*leaf), "www.example.com", seconds(kNow)),
            "hostname mismatch");
}

TEST(Authority, WhatIsOutsideOfTheScopeIsNotCertified) {
  CertificateAuthority ca =
      authority({.names = {"example.com"}, .ranges = {*IpPrefix::parse("192.0.2.0/24")}});
  for (const char* host :
       {"example.org", "badexample.com", "com", "example.com.evil.org", "192.0.3.1", "2001:db8::7"})
    EXPECT_EQ(ca.leaf(host, kNow), nullptr) << host;
}

TEST(Authority, WhatIsNoHostIsNotCertified) {
  CertificateAuthority ca = authority({.any_name = true, .ranges = {*IpPrefix::parse("::/0")}});
  for (const char* host : {"", ".", "*", "*.example.com", "EXAMPLE.com", "example.com.", "a..b",
                           "a b", "-a.com", "1.2.3", "::0", "[::1]", "a/b", "a,DNS:b", "a.0"})
    EXPECT_EQ(ca.leaf(host, kNow), nullptr) << host;
}

// The scope holds even if the signing key were used by somebody else: it is in the certificate.
TEST(Authority, TheIntermediateIsConstrained) {
  const CertificateAuthority names = for_names({"example.com"});
  EXPECT_EQ(constraint_verdict(names, "x.example.com"), X509_V_OK);
  EXPECT_EQ(constraint_verdict(names, "example.org"), X509_V_ERR_PERMITTED_VIOLATION);
  EXPECT_EQ(constraint_verdict(names, "192.0.2.1"), X509_V_ERR_EXCLUDED_VIOLATION);
  EXPECT_EQ(constraint_verdict(names, "2001:db8::1"), X509_V_ERR_EXCLUDED_VIOLATION);
  EXPECT_TRUE(is_critical(read_certificate(names.intermediate_pem()).get(), NID_name_constraints));

  const CertificateAuthority range = authority({.ranges = {*IpPrefix::parse("192.0.2.0/25")}});
  EXPECT_EQ(constraint_verdict(range, "192.0.2.1"), X509_V_OK);
  EXPECT_EQ(constraint_verdict(range, "192.0.2.129"), X509_V_ERR_PERMITTED_VIOLATION);
  EXPECT_EQ(constraint_verdict(range, "2001:db8::1"), X509_V_ERR_PERMITTED_VIOLATION);
  EXPECT_EQ(constraint_verdict(range, "example.com"), X509_V_ERR_EXCLUDED_VIOLATION);

  const CertificateAuthority any = authority({.any_name = true});
  EXPECT_EQ(constraint_verdict(any, "example.org"), X509_V_OK);
  EXPECT_EQ(constraint_verdict(any, "192.0.2.1"), X509_V_ERR_EXCLUDED_VIOLATION);

  const CertificateAuthority none = authority({});
  EXPECT_EQ(constraint_verdict(none, "example.org"), X509_V_ERR_EXCLUDED_VIOLATION);
}

TEST(Authority, TheRootIsNotConstrainedAndBothAreMarkedAsAuthorities) {
  const CertificateAuthority ca = for_names({"example.com"});
  const Certificate root = read_certificate(ca.root_pem());
  const Certificate intermediate = read_certificate(ca.intermediate_pem());
  EXPECT_EQ(X509_get_ext_by_NID(root.get(), NID_name_constraints, -1), -1);
  for (X509* each : {root.get(), intermediate.get()}) {
    EXPECT_TRUE(is_critical(each, NID_basic_constraints));
    EXPECT_TRUE(is_critical(each, NID_key_usage));
    EXPECT_EQ(X509_get_key_usage(each), static_cast<uint32_t>(KU_KEY_CERT_SIGN | KU_CRL_SIGN));
    EXPECT_NE(X509_get0_subject_key_id(each), nullptr);
  }
  EXPECT_EQ(X509_get_pathlen(intermediate.get()), 0);
  EXPECT_NE(
      X509_NAME_cmp(X509_get_subject_name(root.get()), X509_get_subject_name(intermediate.get())),
      0);
  EXPECT_NE(shown_name(root.get()).find("mvm root web"), std::string::npos);
}

TEST(Authority, LeavesNameTheirIssuersKeyAndTheirOwn) {
  CertificateAuthority ca = for_names({"example.com"});
  const Certificate leaf = read_certificate(chain_pem(*ca.leaf("example.com", kNow)));
  const Certificate intermediate = read_certificate(ca.intermediate_pem());
  ASSERT_NE(X509_get0_authority_key_id(leaf.get()), nullptr);
  ASSERT_NE(X509_get0_subject_key_id(leaf.get()), nullptr);
  EXPECT_EQ(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf.get()),
                                  X509_get0_subject_key_id(intermediate.get())),
            0);
  EXPECT_TRUE(is_critical(leaf.get(), NID_basic_constraints));
  EXPECT_EQ(X509_get_extended_key_usage(leaf.get()), static_cast<uint32_t>(XKU_SSL_SERVER));
}

TEST(Authority, DatesLeaveRoomForAClockThatIsOff) {
  CertificateAuthority ca = for_names({"example.com"});
  EXPECT_EQ(verified(ca, "example.com", kNow - hours(47)), "ok");
  EXPECT_EQ(verified(ca, "example.com", kNow - hours(49)), "certificate is not yet valid");
  EXPECT_EQ(verified(ca, "example.com", kNow + kLeafLifetime - hours(1)), "ok");
  EXPECT_EQ(verified(ca, "example.com", kNow + kLeafLifetime + hours(1)),
            "certificate has expired");
  static_assert(kLeafLifetime + kClockSkew <= hours(24 * 397));
}

TEST(Authority, SerialsAreLongAndNeverTheSame) {
  CertificateAuthority ca = for_names({"example.com"});
  std::set<std::string> serials{serial_of(read_certificate(ca.root_pem()).get()),
                                serial_of(read_certificate(ca.intermediate_pem()).get())};
  for (const char* host : {"a.example.com", "b.example.com", "c.example.com"})
    serials.insert(serial_of(*ca.leaf(host, kNow)));
  EXPECT_EQ(serials.size(), 5U);
  for (const std::string& serial : serials) EXPECT_EQ(serial.size(), 16U);
}

TEST(Authority, TwoOfOneNameAreNotTakenForEachOther) {
  CertificateAuthority one = for_names({"example.com"});
  CertificateAuthority two = for_names({"example.com"});
  EXPECT_EQ(verify(two.root_pem(), chain_pem(*one.leaf("example.com", kNow)), "example.com",
                   seconds(kNow)),
            "unable to get local issuer certificate");
}

TEST(Authority, LeavesAreKeptForHalfTheirLife) {
  CertificateAuthority ca = for_names({"example.com"});
  const auto first = ca.leaf("example.com", kNow);
  EXPECT_EQ(ca.leaf("example.com", kNow + kLeafLifetime / 2 - hours(1)), first);
  const auto second = ca.leaf("example.com", kNow + kLeafLifetime / 2);
  EXPECT_NE(second, first);
  EXPECT_NE(serial_of(*second), serial_of(*first));
  // The clock has been set back to before the second's first day.
  EXPECT_NE(ca.leaf("example.com", kNow), second);
}

TEST(Authority, KeepsTheLeavesLastUsed) {
  CertificateAuthority ca = for_names({"example.com"});
  const auto host = [](size_t number) { return "h" + std::to_string(number) + ".example.com"; };
  const auto first = ca.leaf(host(0), kNow);
  const auto second = ca.leaf(host(1), kNow);
  for (size_t number = 2; number < kCachedLeaves; ++number) ca.leaf(host(number), kNow);
  EXPECT_EQ(ca.leaf(host(0), kNow), first);  // now the second is the oldest
  ca.leaf(host(kCachedLeaves), kNow);
  EXPECT_EQ(ca.leaf(host(0), kNow), first);
  EXPECT_NE(ca.leaf(host(1), kNow), second);
}

TEST(Authority, RefusesAScopeThatIsNone) {
  EXPECT_THROW(for_names({"Example.com"}), Error);
  EXPECT_THROW(for_names({"*.example.com"}), Error);
  EXPECT_THROW(for_names({"192.0.2.1"}), Error);
  EXPECT_THROW(for_names(std::vector<std::string>(kMaxScopeNames + 1, "a.com")), Error);
  EXPECT_NO_THROW(for_names(std::vector<std::string>(kMaxScopeNames, "a.com")));
}

}
}
