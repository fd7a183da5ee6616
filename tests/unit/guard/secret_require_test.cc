// Hosts that no request reaches without their secret: a guest with an account of its own there
// could send anything to it.
#include "secret_filter.h"

namespace mvm::guard {
namespace {

using ::testing::HasSubstr;

class SecretRequire : public SecretFilterTest {
 protected:
  void SetUp() override {
    SecretFilterTest::SetUp();
    key_rule_.places = {"header"};
    key_rule_.require = true;
  }
  void begin(const std::string& host = "api.test", bool tls = true) {
    request_ = {"GET", "/", 1, {}, {}};
    verdict_.reset();
    start(host, tls);
  }
  static void expect_refused(const egress::FilterVerdict& verdict) {
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->reason, policy::Reason::SecretRequired);
    EXPECT_EQ(verdict->answer.status, 403U);
    EXPECT_EQ(verdict->rule, "secret:KEY");
    EXPECT_THAT(verdict->answer.message, HasSubstr("secret KEY"));
  }
};

TEST_F(SecretRequire, LetsNoRequestGoWithoutIt) {
  begin();
  expect_refused(head());
  begin();
  request_.headers.push_back({"Authorization", "Bearer sk-one-of-the-guests-own"});
  expect_refused(head("application/json"));
  begin();
  request_.headers.push_back({"Authorization", "Bearer " + key()});
  EXPECT_FALSE(head("application/json"));
  body("{}");
  EXPECT_FALSE(verdict_);
}

TEST_F(SecretRequire, IsForItsHostsAlone) {
  begin("other.test");
  EXPECT_FALSE(head());
}

// Nothing of it is put into such a connection.
TEST_F(SecretRequire, LetsNothingGoWithoutTls) {
  begin("api.test", false);
  expect_refused(head());
}

TEST_F(SecretRequire, MayBeInABody) {
  key_rule_.places = {"header", "body"};
  for (const size_t step : {SIZE_MAX, size_t{1}}) {
    begin();
    ASSERT_FALSE(head("text/plain", true));
    EXPECT_EQ(body("key=" + key(), step), "key=" + std::string(kKey));
    EXPECT_FALSE(verdict_);
    begin();
    ASSERT_FALSE(head("text/plain", true));
    body("key=another", step);
    expect_refused(verdict_);
  }
  // Into what is compressed nothing is put.
  begin();
  request_.headers.push_back({"Content-Encoding", "gzip"});
  expect_refused(head("application/json", true));
  begin();
  expect_refused(head());
}

}
}
