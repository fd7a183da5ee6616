// Servers that must not be believed, each with the words for it.

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"

#include "raw_tls.h"
#include "tls_pair.h"

namespace mvm::crypto {
namespace {

using std::chrono::hours;

TlsFailure verify_failure(CertificateAuthority& by, Time issued, const std::string& leaf_host,
                          const std::shared_ptr<const TrustStore>& trust, const std::string& host) {
  TlsServerContext server;
  TlsClientContext client(trust);
  Pair pair(server, client, {.host = host});
  pair.run();
  pair.server.engine.accept(by.leaf(leaf_host, issued), "");
  pair.run();
  // The server learns that it was not believed.
  if (pair.client.engine.phase() == TlsPhase::Failed) {
    EXPECT_EQ(pair.server.engine.failure().fault, TlsFault::Alert);
  }
  return pair.client.engine.failure();
}

std::shared_ptr<const TrustStore> trusting(const CertificateAuthority& authority) {
  return TrustStore::from_pem(authority.root_pem(), "root");
}

std::string shown(Time time) {
  const time_t seconds = std::chrono::system_clock::to_time_t(time);
  tm fields{};
  gmtime_r(&seconds, &fields);
  char text[16];
  return {text, strftime(text, sizeof text, "%Y-%m-%d", &fields)};
}

TEST(Verification, TellsAnotherHost) {
  CertificateAuthority ca = test_authority();
  const TlsFailure failure =
      verify_failure(ca, clock_now(), "example.org", trusting(ca), "example.com");
  EXPECT_EQ(failure.fault, TlsFault::WrongHost);
  EXPECT_EQ(failure.text, "its certificate is for example.org, not for example.com");
}

TEST(Verification, TellsAnUnknownAuthority) {
  CertificateAuthority ca = test_authority();
  const CertificateAuthority other = test_authority();
  const TlsFailure failure =
      verify_failure(ca, clock_now(), "example.com", trusting(other), "example.com");
  EXPECT_EQ(failure.fault, TlsFault::UnknownAuthority);
  EXPECT_EQ(failure.text.substr(0, failure.text.find("mvm root")),
            "its certificate's authority is not known, or is missing in what it sent: ");
}

TEST(Verification, TellsAnExpiredCertificate) {
  const Time then = clock_now() - kLeafLifetime - hours(24);
  CertificateAuthority ca = test_authority(then);
  const TlsFailure failure = verify_failure(ca, then, "example.com", trusting(ca), "example.com");
  EXPECT_EQ(failure.fault, TlsFault::Expired);
  EXPECT_EQ(failure.text, "its certificate expired on " + shown(then + kLeafLifetime));
}

TEST(Verification, TellsACertificateOfTheFuture) {
  CertificateAuthority ca = test_authority();
  const Time then = clock_now() + kClockSkew + hours(24);
  const TlsFailure failure = verify_failure(ca, then, "example.com", trusting(ca), "example.com");
  EXPECT_EQ(failure.fault, TlsFault::NotYetValid);
  EXPECT_EQ(failure.text, "its certificate is not valid before " + shown(then - kClockSkew));
}

TEST(Verification, AnIntermediateThatIsTrustedIsEnough) {
  CertificateAuthority ca = test_authority();
  const auto trust = TrustStore::from_pem(ca.intermediate_pem(), "intermediate");
  EXPECT_EQ(verify_failure(ca, clock_now(), "example.com", trust, "example.com").fault,
            TlsFault::None);
}

// A self-signed certificate for example.com, as test servers have them.
TEST(Verification, TellsASelfSignedCertificate) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  const unsigned char host[] = "example.com";
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, host, -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  SSL* server = SSL_new(context);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(server, in, out);

  CertificateAuthority ca = test_authority();
  TlsClientContext client(trusting(ca));
  End end{TlsEngine(client, {.host = "example.com"}), {}};
  const std::string hello = end.take();
  BIO_write(in, hello.data(), static_cast<int>(hello.size()));
  SSL_accept(server);
  char* data = nullptr;
  const long length = BIO_get_mem_data(out, &data);
  end.feed({data, static_cast<size_t>(length)});
  EXPECT_EQ(end.engine.failure().fault, TlsFault::SelfSigned);
  EXPECT_EQ(end.engine.failure().text, "its certificate is self-signed");

  SSL_free(server);
  SSL_CTX_free(context);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

TEST(Verification, ANameIsNeeded) {
  CertificateAuthority ca = test_authority();
  TlsClientContext client(trusting(ca));
  EXPECT_THROW(TlsEngine(client, {.host = ""}), Error);
  EXPECT_THROW(TlsEngine(client, {.host = std::string("a\0b", 3)}), Error);
}

TEST(TrustStore, AddsToAnother) {
  CertificateAuthority one = test_authority();
  CertificateAuthority two = test_authority();
  const auto base = trusting(one);
  const auto both = TrustStore::with(base, two.root_pem(), "extra");
  EXPECT_EQ(base->size(), 1U);
  EXPECT_EQ(both->size(), 2U);
  for (CertificateAuthority* ca : {&one, &two})
    EXPECT_EQ(verify_failure(*ca, clock_now(), "example.com", both, "example.com").fault,
              TlsFault::None);
}

TEST(TrustStore, SkipsWhatStandsBetweenCertificates) {
  CertificateAuthority ca = test_authority();
  const std::string text = "# Company root\n" + ca.root_pem() + "\nsubject=x\n" + ca.root_pem();
  EXPECT_EQ(TrustStore::from_pem(text, "text")->size(), 2U);
}

TEST(TrustStore, NamesWhatIsWrong) {
  const auto complaint = [](std::string_view text) -> std::string {
    try {
      TrustStore::from_pem(text, "file x.pem");
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  };
  EXPECT_EQ(complaint(""),
            "reading certificates of file x.pem: there is none (they are expected as PEM)");
  EXPECT_EQ(complaint("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "reading certificates of file x.pem: number 1 is malformed");
  EXPECT_EQ(complaint(test_authority().root_pem() + "-----BEGIN CERTIFICATE-----\nAAAA\n"),
            "reading certificates of file x.pem: number 2 is malformed");
  EXPECT_EQ(complaint(std::string(kMaxTrustFile + 1, ' ')),
            "reading certificates of file x.pem: larger than 8 MiB");
}

}
}
