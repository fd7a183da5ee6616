// Both kinds of Java's stores, byte by byte. That a JVM reads them is tests/clients' to show.
#include "java_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/sha1.h"
#include "mvm/sys/file.h"

#include "trust.h"

namespace mvm::guest {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// PKCS #12 without a certificate and without a MAC.
constexpr std::string_view kPkcs12{
    "\x30\x16\x02\x01\x03\x30\x11\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01\xa0\x04\x04\x02\x30"
    "\x00",
    24};

std::string digest_of(const std::string& content, std::string_view password = "changeit") {
  Bytes text;
  for (const char c : password) Writer(text).u16be(static_cast<unsigned char>(c));
  Writer(text).text("Mighty Aphrodite" + content);
  const auto digest = sha1(text);
  return {digest.begin(), digest.end()};
}

// JKS with an entry of each kind.
std::string jks(std::string_view password = "changeit") {
  Bytes out;
  Writer to(out);
  const auto certificate = [&](std::string_view text) {
    to.u16be(5);
    to.text("X.509");
    to.u32be(static_cast<uint32_t>(text.size()));
    to.text(text);
  };
  const auto entry = [&](uint32_t tag, std::string_view alias) {
    to.u32be(tag);
    to.u16be(static_cast<uint16_t>(alias.size()));
    to.text(alias);
    to.u64be(1);
  };
  to.u32be(0xfeedfeed);
  to.u32be(2);
  to.u32be(2);
  entry(2, "theirs");
  certificate("THEIRS");
  entry(1, "key");
  to.u32be(3);
  to.text("KEY");
  to.u32be(1);
  certificate("CHAIN");
  std::string content(as_text(out));
  return content + digest_of(content, password);
}

std::optional<std::string> with(std::string_view store, std::string_view certificate) {
  const auto made = with_java_authority(as_bytes(store), as_bytes(certificate));
  return made ? std::optional(std::string(as_text(*made))) : std::nullopt;
}

class JavaStore : public ::testing::TestWithParam<std::string> {};

TEST_P(JavaStore, KeepsWhatIsThereAndAddsOurs) {
  const auto one = with(GetParam(), "OURS");
  ASSERT_TRUE(one);
  EXPECT_THAT(*one, HasSubstr("OURS"));
  if (GetParam() == jks()) {
    EXPECT_THAT(*one, AllOf(HasSubstr("THEIRS"), HasSubstr("KEY"), HasSubstr("CHAIN")));
    EXPECT_EQ(one->substr(8, 4), std::string("\0\0\0\3", 4));
    EXPECT_TRUE(one->ends_with(digest_of(one->substr(0, one->size() - 20))));
  }
}

TEST_P(JavaStore, TakesThePlaceOfAnEarlierStarts) {
  const auto first = with(GetParam(), std::string(300, '1'));
  ASSERT_TRUE(first);
  EXPECT_EQ(with(*first, "SECOND"), with(GetParam(), "SECOND"));
}

TEST_P(JavaStore, LeavesWhatIsCutOffOrNot) {
  const std::string store = with(GetParam(), "OURS").value();
  for (size_t length = 0; length < store.size(); ++length)
    EXPECT_FALSE(with(store.substr(0, length), "MORE")) << length;
  EXPECT_FALSE(with(store + "x", "MORE"));
  EXPECT_FALSE(with(store, ""));
  // Every byte turned over: it is taken or left, and nothing worse.
  for (size_t at = 0; at < store.size(); ++at) {
    std::string bad = store;
    bad[at] = static_cast<char>(~bad[at]);
    static_cast<void>(with(bad, "MORE"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, JavaStore, ::testing::Values(jks(), std::string(kPkcs12)),
                         [](const auto& made) {
                           return std::string(made.index == 0 ? "Jks" : "Pkcs12");
                         });

TEST(JavaStores, HaveNoOtherPassword) {
  EXPECT_FALSE(with(jks("secret"), "OURS"));
  EXPECT_FALSE(with("", "OURS"));
  EXPECT_FALSE(with("text", "OURS"));
  // A MAC follows the contents.
  std::string sealed(kPkcs12);
  sealed[1] += 2;
  EXPECT_FALSE(with(sealed + std::string("\x30\x00", 2), "OURS"));
  // Lengths of entries, and a count of them, that lead beyond the end.
  for (const size_t at : {8U, 16U, 40U}) {
    std::string content = jks();
    content.resize(content.size() - 20);
    content[at] = '\xff';
    EXPECT_FALSE(with(content + digest_of(content), "OURS")) << at;
  }
}

TEST(JavaStores, AreFoundWhereJvmsAre) {
  const sys::TempDir root;
  const std::string pem = "-----BEGIN CERTIFICATE-----\nT1VS\nUw==\n-----END CERTIFICATE-----\n";
  EXPECT_EQ(as_text(first_certificate(pem)), "OURS");
  const auto have = [&](const std::string& folder) {
    sys::make_directories(root.path() + folder + "/lib/security", 0755);
    sys::write_file_atomic(root.path() + folder + "/lib/security/cacerts", as_bytes(jks()));
  };
  const std::vector<std::string> homes{"/usr/lib/jvm/java-17", "/opt/java/openjdk", "/opt/jdk",
                                       "/usr/local/openjdk-8/jre",
                                       "/nix/store/abc-openjdk-21/lib/openjdk"};
  for (const std::string& home : homes) have(home);
  have("/nix/store/abc-bash");
  EXPECT_EQ(java_stores(root.path()).size(), homes.size());
  trust_authority(pem, root.path());
  for (const std::string& home : homes)
    EXPECT_THAT(sys::read_text_file(root.path() + home + "/lib/security/cacerts", 1 << 20),
                HasSubstr("mvm-sandbox"))
        << home;
  EXPECT_THAT(
      sys::read_text_file(root.path() + "/nix/store/abc-bash/lib/security/cacerts", 1 << 20),
      Not(HasSubstr("mvm-sandbox")));
}

}
}
