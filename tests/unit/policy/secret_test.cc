#include "mvm/policy/secret.h"

#include <gmock/gmock.h>

#include "mvm/base/error.h"

namespace mvm::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

proto::SecretRule rule(const std::string& name, std::vector<std::string> hosts = {}) {
  proto::SecretRule out;
  out.name = name;
  out.hosts = std::move(hosts);
  return out;
}

std::string complaint(const std::vector<proto::SecretRule>& rules) {
  try {
    compile_secrets(rules);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
    return error.message();
  }
  return "";
}

TEST(SecretRules, GoIntoHeadersAndBasicByDefault) {
  const SecretBinding binding = compile_secret(rule("KEY", {"api.test", "*.below.test:8443"}));
  EXPECT_THAT(binding.places, ElementsAre(SecretPlace::Header, SecretPlace::Basic));
  EXPECT_TRUE(binding.covers(*dns::Name::parse("api.test"), 443));
  EXPECT_FALSE(binding.covers(*dns::Name::parse("api.test"), 8443));
  EXPECT_FALSE(binding.covers(*dns::Name::parse("x.api.test"), 443));
  EXPECT_TRUE(binding.covers(*dns::Name::parse("x.below.test"), 8443));
  EXPECT_FALSE(binding.covers(*dns::Name::parse("below.test"), 8443));
}

TEST(SecretRules, SayWhatIsWrong) {
  EXPECT_THAT(complaint({rule("1KEY", {"a.test"})}), HasSubstr("name of a variable"));
  EXPECT_THAT(complaint({rule("KEY")}), HasSubstr("secrets.KEY.hosts"));
  EXPECT_THAT(complaint({rule("KEY", {"10.0.0.1"})}), HasSubstr("secrets.KEY.hosts"));
  EXPECT_THAT(complaint({rule("KEY", {"a.test"}), rule("KEY", {"b.test"})}),
              HasSubstr("two rules for this variable"));
  proto::SecretRule bad = rule("KEY", {"a.test"});
  bad.places = {"cookie jar"};
  EXPECT_THAT(complaint({bad}), HasSubstr("header, basic, query"));
  bad = rule("KEY", {"a.test"});
  bad.headers = {"Author ization"};
  EXPECT_THAT(complaint({bad}), HasSubstr("secrets.KEY.headers"));
  bad.headers = {"Authorization"};
  bad.places = {"query"};
  EXPECT_THAT(complaint({bad}), HasSubstr("none of its places"));
  bad = rule("KEY", {"a.test"});
  bad.on_misuse = "ignore";
  EXPECT_THAT(complaint({bad}), HasSubstr("on_misuse"));
  bad = rule("KEY", {"a.test"});
  bad.prefix = "sk ";
  EXPECT_THAT(complaint({bad}), HasSubstr("prefix"));
}

TEST(SecretRules, DoNotShowWhatMayBeAValue) {
  proto::SecretRule pasted = rule("KEY", {"a.test"});
  pasted.from = "sk-live-0123456789";
  EXPECT_THAT(complaint({pasted}), HasSubstr("env:NAME"));
  EXPECT_THAT(complaint({pasted}), ::testing::Not(HasSubstr("0123456789")));
}

TEST(SecretRules, TakeTheProvidersHostsAndPlaces) {
  const SecretBinding binding = compile_secret(with_provider(rule("OPENAI_API_KEY")));
  EXPECT_TRUE(binding.covers(*dns::Name::parse("api.openai.com"), 443));
  ASSERT_EQ(binding.headers.size(), 1U);
  EXPECT_EQ(binding.headers[0].name, "Authorization");
  EXPECT_EQ(binding.headers[0].scheme, "Bearer");
  // For another server nothing is known but what clients look at.
  const SecretBinding own = compile_secret(with_provider(rule("OPENAI_API_KEY", {"llm.test"})));
  EXPECT_EQ(own.hosts.size(), 1U);
  EXPECT_TRUE(own.headers.empty());
  EXPECT_EQ(own.prefix, binding.prefix);
}

TEST(SecretRules, EveryProviderIsInOrder) {
  std::string_view before;
  for (const SecretProvider& provider : secret_providers()) {
    EXPECT_LT(before, provider.name);
    before = provider.name;
    EXPECT_NO_THROW(compile_secret(with_provider(rule(std::string(provider.name)))))
        << provider.name;
  }
}

TEST(SecretRules, ReadFlags) {
  EXPECT_EQ(parse_secret_flag("KEY"), rule("KEY"));
  EXPECT_EQ(parse_secret_flag("KEY@a.test,*.b.test:8443"),
            rule("KEY", {"a.test", "*.b.test:8443"}));
  for (const char* bad : {"", "@a.test", "KEY@", "KEY@a.test,", "KEY=value", "KEY@10.0.0.1"})
    EXPECT_FALSE(parse_secret_flag(bad)) << bad;
}

TEST(SecretRules, KnowFieldsThatCarryCredentials) {
  for (const char* name : {"Authorization", "X-Api-Key", "api-key", "PRIVATE-TOKEN", "Cookie",
                           "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "X-Auth-Token"})
    EXPECT_TRUE(is_credential_field(name)) << name;
  for (const char* name : {"User-Agent", "Referer", "Host", "Sec-WebSocket-Key", "Idempotency-Key",
                           "X-Request-Id", "traceparent", "Content-Type", "Accept"})
    EXPECT_FALSE(is_credential_field(name)) << name;
}

}
}
