#include "mvm/secret/head.h"

#include <gmock/gmock.h>

#include "mvm/base/error.h"
#include "mvm/secret/text.h"

namespace mvm::secret {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kKey = "sk-real+value/0123456789";
constexpr std::string_view kOther = "other-real-value-987654";

class Head : public ::testing::Test {
 protected:
  void SetUp() override { config_.rules = {rule("KEY", "api.test"), rule("OTHER", "other.test")}; }
  static proto::SecretRule rule(const std::string& name, const std::string& host) {
    proto::SecretRule out;
    out.name = name;
    out.hosts = {host};
    return out;
  }
  const Secrets& secrets() {
    if (!secrets_) {
      config_.values = {{"KEY", std::string(kKey)}, {"OTHER", std::string(kOther)}};
      secrets_.emplace(config_);
    }
    return *secrets_;
  }
  std::string key() { return secrets().all()[0].placeholder; }

  HeadResult put(const std::string& host = "api.test", bool tls = true, uint16_t port = 443) {
    return put_into_head(secrets(), Reach::of(secrets(), host, port, tls), head_);
  }
  void field(const std::string& name, const std::string& value) {
    head_.headers.push_back({name, value});
  }

  proto::SecretsConfig config_;
  std::optional<Secrets> secrets_;
  http::RequestHead head_{"GET", "/v1", 1, {{"Host", "api.test"}}, {}};
};

TEST_F(Head, PutsTheValueIntoACredentialsField) {
  field("Authorization", "Bearer " + key());
  const HeadResult result = put();
  EXPECT_EQ(result.fault, Fault::None);
  EXPECT_EQ(result.used.size(), 1U);
  EXPECT_EQ(head_.headers[1].value, "Bearer " + std::string(kKey));
}

TEST_F(Head, LeavesAHeadWithoutPlaceholdersAsItIs) {
  field("User-Agent", "curl %41 \\u0041 & co");
  const http::RequestHead before = head_;
  EXPECT_EQ(put().fault, Fault::None);
  EXPECT_EQ(head_, before);
}

TEST_F(Head, PutsTheValueIntoBasicCredentials) {
  field("authorization", "basic " + base64("x-access-token:" + key()));
  EXPECT_EQ(put().fault, Fault::None);
  EXPECT_EQ(head_.headers[1].value, "Basic " + base64("x-access-token:" + std::string(kKey)));
}

TEST_F(Head, RefusesAPlaceholderForAnotherHost) {
  field("Authorization", "Bearer " + key());
  EXPECT_EQ(put("other.test").fault, Fault::Misuse);
}

TEST_F(Head, RefusesAPlaceholderForAnotherPort) {
  field("Authorization", "Bearer " + key());
  EXPECT_EQ(put("api.test", true, 8443).fault, Fault::Misuse);
}

TEST_F(Head, RefusesAPlaceholderForAnAddress) {
  field("Authorization", "Bearer " + key());
  EXPECT_EQ(put("93.184.216.34").fault, Fault::Misuse);
}

TEST_F(Head, RefusesFieldsThatServersShowAround) {
  for (const char* name : {"User-Agent", "Referer", "Origin", "X-Forwarded-For", "X-Request-Id",
                           "traceparent", "Sec-CH-UA-Platform", "X-Debug", "Accept"}) {
    head_.headers.resize(1);
    field(name, key());
    EXPECT_EQ(put().fault, Fault::Misuse) << name;
  }
}

TEST_F(Head, RefusesQueryAndPathUnlessTheRuleNamesThem) {
  head_.target = "/v1?key=" + key();
  EXPECT_EQ(put().fault, Fault::Misuse);
  head_.target = "/bot" + key() + "/send";
  EXPECT_EQ(put().fault, Fault::Misuse);
}

TEST_F(Head, WritesAValueIntoAQueryPercentEncoded) {
  config_.rules[0].places = {"query", "path"};
  head_.target = "/bot" + key() + "/send?a=1&key=" + key() + "&b=2";
  EXPECT_EQ(put().fault, Fault::None);
  const std::string written = secret::written(kKey, Writing::Percent);
  EXPECT_EQ(head_.target, "/bot" + written + "/send?a=1&key=" + written + "&b=2");
  EXPECT_THAT(written, HasSubstr("%2F"));
}

TEST_F(Head, HoldsARuleToItsFieldAndScheme) {
  config_.rules[0].headers = {"Authorization: Bearer"};
  config_.rules[0].places = {"header"};
  field("Authorization", "Bearer " + key());
  EXPECT_EQ(put().fault, Fault::None);
  head_.headers[1].value = "Token " + key();
  EXPECT_EQ(put().fault, Fault::Misuse);
  head_.headers[1].value = "Basic " + base64("user:" + key());
  EXPECT_EQ(put().fault, Fault::Misuse);
  head_.headers[1] = {"X-Api-Key", key()};
  EXPECT_EQ(put().fault, Fault::Misuse);
}

TEST_F(Head, RefusesAFieldThatIsThereTwice) {
  field("Authorization", "Bearer " + key());
  field("authorization", "Bearer something");
  EXPECT_EQ(put().fault, Fault::Misuse);
}

TEST_F(Head, RefusesAChangedPlaceholder) {
  field("X-Api-Key", base64("." + key()));
  EXPECT_EQ(put().fault, Fault::Misuse);
  std::string encoded;
  for (const char c : key()) encoded += c == '-' ? "%2D" : std::string(1, c);
  head_.headers[1].value = encoded;
  EXPECT_EQ(put().fault, Fault::Misuse);
}

// Where it is no text as it was given, no server would take it for a credential; somebody hides it.
TEST_F(Head, RefusesAPlaceholderInAnyWritingAnywhere) {
  const std::string text = key();
  std::string percent;
  std::string twice;
  std::string json;
  std::string hex;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::string digits{kDigits[static_cast<uint8_t>(c) >> 4],
                             kDigits[static_cast<uint8_t>(c) & 15]};
    percent += "%" + digits;
    twice += "%25" + digits;
    json += "\\u00" + digits;
    hex += digits;
  }
  std::vector<std::string> writings{percent, twice, json, hex};
  for (const std::string_view before : {"", "x", "xy", "user:"})
    writings.push_back(base64(std::string(before) + text));
  for (const std::string& writing : writings) {
    for (const char* name : {"Authorization", "X-Api-Key", "Cookie", "X-Any"}) {
      head_ = {"GET", "/v1", 1, {{"Host", "api.test"}, {name, "Bearer " + writing}}, {}};
      EXPECT_EQ(put().fault, Fault::Misuse) << name << " " << writing;
    }
    for (const std::string& target : {"/v1?key=" + writing, "/" + writing + "/x"}) {
      head_ = {"GET", target, 1, {{"Host", "api.test"}}, {}};
      EXPECT_EQ(put().fault, Fault::Misuse) << target;
    }
  }
}

TEST_F(Head, RefusesAConnectionWithoutTls) {
  field("Authorization", "Bearer " + key());
  EXPECT_EQ(put("api.test", false, 80).fault, Fault::Plaintext);
}

TEST_F(Head, UsesAConnectionWithoutTlsWhereTheRuleSaysSo) {
  config_.rules[0].plaintext = true;
  field("Authorization", "Bearer " + key());
  EXPECT_EQ(put("api.test", false, 80).fault, Fault::None);
}

TEST_F(Head, RefusesAValue) {
  for (const std::string& text :
       {std::string(kKey), "Bearer " + std::string(kOther), base64("u:" + std::string(kKey)),
        secret::written(kKey, Writing::Percent)}) {
    head_.headers.resize(1);
    field("X-Whatever", text);
    EXPECT_EQ(put().fault, Fault::Leak) << text;
  }
  head_.headers.resize(1);
  head_.target = "/?q=" + secret::written(kKey, Writing::Percent);
  EXPECT_EQ(put().fault, Fault::Leak);
  head_.target = "/";
  field("Authorization", "Basic " + base64("user:" + std::string(kKey)));
  EXPECT_EQ(put().fault, Fault::Leak);
}

TEST_F(Head, FindsAValueInTheNameOfAField) {
  field(std::string("X-") + std::string(kOther), "1");
  const HeadResult result = put();
  EXPECT_EQ(result.fault, Fault::Leak);
  EXPECT_THAT(result.where, Not(HasSubstr(std::string(kOther))));
}

TEST_F(Head, MasksTheAnswersFields) {
  http::ResponseHead answer{200,
                            "OK " + std::string(kKey),
                            1,
                            {{"Location", "/?k=" + secret::written(kKey, Writing::Percent)},
                             {"X-Echo", base64("user:" + std::string(kOther))}},
                            {}};
  std::vector<size_t> masked;
  mask_head(secrets(), answer, masked);
  EXPECT_EQ(answer.reason, "OK " + key());
  EXPECT_EQ(answer.headers[0].value, "/?k=" + key());
  EXPECT_THAT(answer.headers[1].value, HasSubstr(secrets().all()[1].placeholder));
  EXPECT_THAT(masked, ::testing::ElementsAre(0U, 0U, 1U));
}

TEST(Secrets, AreFoundInNames) {
  proto::SecretsConfig config;
  proto::SecretRule rule;
  rule.name = "KEY";
  rule.hosts = {"api.test"};
  config.rules = {rule};
  config.values = {{"KEY", "Sk-Live.0123456789abcdefghij"}};
  const Secrets secrets(config);
  const std::string hex = "536b2d4c6976652e303132333435363738396162636465666768696a";
  for (const std::string& name :
       {std::string("x.sk-live.0123456789abcdefghij.evil.test"),
        std::string("SK-LIVE.0123456789ABCDEFGHIJ.evil.test"),
        std::string("xsk-live0123456789abcdefghijx.evil.test"),
        std::string("a.sk-live01234.56789abcdefghij.evil.test"), hex + ".evil.test",
        hex.substr(0, 30) + "." + hex.substr(30) + ".evil.test"})
    EXPECT_EQ(secrets.in_name(name), 0U) << name;
  for (const char* name : {"", "evil.test", "sk-live.0123456789abcdefghi.evil.test"})
    EXPECT_FALSE(secrets.in_name(name)) << name;
}

TEST(Secrets, HaveAnotherPlaceholderEachTime) {
  const auto make = [] {
    proto::SecretsConfig config;
    proto::SecretRule rule;
    rule.name = "OPENAI_API_KEY";
    config.rules = {policy::with_provider(rule)};
    config.values = {{rule.name, "sk-0123456789"}};
    return Secrets(config).environment().at(0).second;
  };
  const std::string one = make();
  EXPECT_TRUE(one.starts_with("sk-proj-mvm-secret-")) << one;
  EXPECT_EQ(
      one.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"),
      std::string::npos);
  EXPECT_NE(one, make());
}

TEST(Secrets, WipesTheValuesThatItIsGiven) {
  proto::SecretsConfig config;
  proto::SecretRule rule;
  rule.name = "KEY";
  rule.hosts = {"api.test"};
  config.rules = {rule};
  config.values = {{"KEY", "0123456789"}};
  const Secrets secrets(config);
  EXPECT_TRUE(config.values.empty());
}

TEST(Secrets, RefusesAValueWithoutSayingIt) {
  for (const std::string& value : {std::string("short"), std::string("two\nlines of it")}) {
    proto::SecretsConfig config;
    proto::SecretRule rule;
    rule.name = "KEY";
    rule.hosts = {"api.test"};
    config.rules = {rule};
    config.values = {{"KEY", value}};
    try {
      const Secrets secrets(config);
      ADD_FAILURE() << "it took " << value.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("secrets.KEY"));
      EXPECT_THAT(error.message(), Not(HasSubstr(value)));
    }
  }
}

}
}
