#include "../../../src/sandbox/upstream_authorities.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/crypto/authority.h"
#include "mvm/sys/file.h"

#include "../../../src/sandbox/network.h"

namespace mvm::sandbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string root(const std::string& name) {
  crypto::AuthorityScope scope;
  scope.names = {"a.example"};
  return crypto::CertificateAuthority(name, scope, std::chrono::system_clock::now()).root_pem();
}

class UpstreamAuthorities : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "mvm-authorities-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::string& text) const {
    const std::string path = directory_ + "/" + name;
    sys::write_file_atomic(path, as_bytes(text), 0600);
    return path;
  }
  std::string complaint_of(const std::string& rule) const {
    try {
      upstream_authorities({rule}, base_);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  std::string directory_;
  std::shared_ptr<const crypto::TrustStore> base_ =
      crypto::TrustStore::from_pem(root("base"), "base");
};

TEST_F(UpstreamAuthorities, HoldTheirOwnAndTheHosts) {
  const std::string one = file("one.pem", root("one"));
  const std::string several =
      file("several.pem", "a company's\n" + root("one") + "\nand\n" + root("two"));
  const auto made = upstream_authorities({"a.example=" + one, "*=" + several}, base_);
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].host->text(), "a.example");
  EXPECT_EQ(made[0].trust->size(), 2U);
  EXPECT_FALSE(made[1].host);
  EXPECT_EQ(made[1].trust->size(), 3U);
  EXPECT_EQ(base_->size(), 1U);
  EXPECT_TRUE(upstream_authorities({}, base_).empty());
}

TEST_F(UpstreamAuthorities, SayWhichFileIsWrongAndHow) {
  const std::string pem = root("one");
  const std::string huge = file("huge", "");
  ASSERT_EQ(::truncate(huge.c_str(), off_t{1} << 40), 0);
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::pair<std::string, std::string> wrong[]{
      {directory_ + "/missing", "No such file"},
      {directory_, "not a regular file"},
      {fifo, "not a regular file"},
      {"/dev/zero", "not a regular file"},
      {huge, "is larger than 8388608 bytes"},
      {file("empty", ""), "there is none (they are expected as PEM)"},
      {file("text", "no certificate\n"), "there is none (they are expected as PEM)"},
      {file("der", std::string("\x30\x82\x01\x00\x00", 5)), "there is none"},
      {file("cut", pem + pem.substr(0, pem.size() / 2)), "number 2 is malformed"},
  };
  for (const auto& [path, how] : wrong) {
    const std::string said = complaint_of("a.example=" + path);
    EXPECT_THAT(said, HasSubstr("upstream_ca \"a.example=" + path + "\": "));
    EXPECT_THAT(said, HasSubstr(how));
    EXPECT_THAT(said, Not(HasSubstr("\n")));
  }
  EXPECT_THAT(complaint_of("a.example=relative.pem"), HasSubstr("has no absolute path"));
}

// Whether there are rules or not, and whatever the host's network can do: to leave the network out
// is no way round it.
TEST_F(UpstreamAuthorities, AFileThatHoldsNoneEndsTheStart) {
  proto::NetworkConfig config;
  config.upstream_ca = {"a.example=" + directory_ + "/missing"};
  Network network(config, "test", [](const egress::Event&) { return true; }, {}, {}, {}, {});
  loop::Loop loop;
  try {
    network.open(loop);
    FAIL() << "it starts";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::NotFound);
    EXPECT_THAT(error.message(), HasSubstr("/missing: No such file"));
    EXPECT_THAT(error.message(), Not(HasSubstr("--no-network")));
  }
}

}
}
