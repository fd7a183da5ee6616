#include "trust.h"

#include <filesystem>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::guest {
namespace {

using ::testing::Contains;
using ::testing::Pair;

constexpr size_t kLimit = 1 << 20;
constexpr const char* kDebian = "/etc/ssl/certs/ca-certificates.crt";

class TrustTest : public ::testing::Test {
 protected:
  std::string at(const std::string& path) const { return root_.path() + path; }
  void have(const std::string& path, const std::string& text) {
    sys::make_directories(at(path.substr(0, path.rfind('/'))), 0755);
    sys::write_file_atomic(at(path), as_bytes(text));
  }
  std::string text(const std::string& path) const { return sys::read_text_file(at(path), kLimit); }
  Environment trust(const std::string& authority) {
    return trust_authority(authority, root_.path());
  }

  sys::TempDir root_;
};

TEST_F(TrustTest, JoinsWhatTheImageTrusts) {
  have(kDebian, "theirs");
  const Environment env = trust("OURS\n");
  EXPECT_TRUE(text(kDebian).starts_with("theirs\n# This sandbox's own"));
  EXPECT_NE(text(kDebian).find("\nOURS\n"), std::string::npos);
  EXPECT_EQ(text("/etc/ssl/certs/mvm-sandbox.pem"), "OURS\n");
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE",
                           "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
                           "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"})
    EXPECT_THAT(env, Contains(Pair(name, at(kDebian))));
  for (const char* name : {"NODE_EXTRA_CA_CERTS", "DENO_CERT"})
    EXPECT_THAT(env, Contains(Pair(name, at("/etc/ssl/certs/mvm-sandbox.pem"))));
}

TEST_F(TrustTest, TakesThePlaceOfAnEarlierStarts) {
  have(kDebian, "theirs\n");
  trust("FIRST\n");
  trust("SECOND\n");
  trust("THIRD");
  const std::string bundle = text(kDebian);
  EXPECT_EQ(bundle.find("FIRST"), std::string::npos);
  EXPECT_EQ(bundle.find("SECOND"), std::string::npos);
  EXPECT_TRUE(bundle.starts_with("theirs\n"));
  EXPECT_NE(bundle.find("\nTHIRD\n#"), std::string::npos);
  EXPECT_EQ(bundle.find("# This"), bundle.rfind("# This"));
}

TEST_F(TrustTest, EveryBundleOnceAndLinksStayLinks) {
  have("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "fedora\n");
  sys::make_directories(at("/etc/pki/tls/certs"), 0755);
  std::filesystem::create_symlink("../../ca-trust/extracted/pem/tls-ca-bundle.pem",
                                  at("/etc/pki/tls/certs/ca-bundle.crt"));
  have("/etc/ssl/cert.pem", "other\n");
  trust("OURS\n");
  EXPECT_TRUE(std::filesystem::is_symlink(at("/etc/pki/tls/certs/ca-bundle.crt")));
  const std::string fedora = text("/etc/pki/tls/certs/ca-bundle.crt");
  EXPECT_EQ(fedora.find("OURS"), fedora.rfind("OURS"));
  EXPECT_NE(fedora.find("OURS"), std::string::npos);
  EXPECT_NE(text("/etc/ssl/cert.pem").find("OURS"), std::string::npos);
}

TEST_F(TrustTest, AnImageWithoutABundleGetsOne) {
  const Environment env = trust("OURS\n");
  EXPECT_NE(text(kDebian).find("OURS"), std::string::npos);
  EXPECT_THAT(env, Contains(Pair("SSL_CERT_FILE", at(kDebian))));
}

// An image's own variables go before ours, so what they name has to have it too.
TEST_F(TrustTest, BundlesThatTheImageNamesAreJoinedToo) {
  constexpr const char* kTheirs =
      "-----BEGIN CERTIFICATE-----\ntheirs\n-----END CERTIFICATE-----\n";
  have(kDebian, "system\n");
  have("/nix/store/cacert/ca-bundle.crt", kTheirs);
  have("/opt/corp.pem", kTheirs);
  have("/etc/shadow", "root:x:\n");
  sys::make_directories(at("/nix/profile"), 0755);
  std::filesystem::create_symlink("../store/cacert/ca-bundle.crt", at("/nix/profile/ca.crt"));
  std::filesystem::create_symlink(at(kDebian), at("/opt/system.pem"));
  ASSERT_EQ(::mkfifo(at("/opt/fifo").c_str(), 0600), 0);
  trust_authority(
      "OURS\n", root_.path(),
      {"/nix/profile/ca.crt", "/nix/store/cacert/ca-bundle.crt", "/opt/corp.pem", "/opt/system.pem",
       "/etc/shadow", "/opt/fifo", "/opt", "/missing", "relative", ""});
  for (const char* path : {"/nix/store/cacert/ca-bundle.crt", "/opt/corp.pem", kDebian}) {
    EXPECT_NE(text(path).find("OURS"), std::string::npos) << path;
    EXPECT_EQ(text(path).find("OURS"), text(path).rfind("OURS")) << path;
  }
  EXPECT_TRUE(text("/opt/corp.pem").starts_with(kTheirs));
  EXPECT_TRUE(std::filesystem::is_symlink(at("/nix/profile/ca.crt")));
  EXPECT_EQ(text("/etc/shadow"), "root:x:\n");
}

TEST_F(TrustTest, ABundleThatIsNoneIsLeftAlone) {
  sys::make_directories(at(kDebian), 0755);
  EXPECT_THROW(trust("OURS\n"), Error);
}

}
}
