#include "mvm/proto/secrets.h"

#include <gtest/gtest.h>

namespace mvm::proto {
namespace {

TEST(SecretsConfig, ComesBackAsItWas) {
  SecretsConfig config;
  config.rules = {
      {"KEY", "env:KEY", {"a.test"}, {"header"}, {"X-Key"}, "sk-", true, "end", "pass", true},
      {"OTHER", "", {}, {}, {}, "", false, "", ""}};
  config.values = {{"KEY", std::string("0123\n\x80 ")},
                   {"OTHER", std::string(kMaxSecretValue, 'x')}};
  const auto back = SecretsConfig::decode(config.encode());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rules, config.rules);
  EXPECT_EQ(back->values, config.values);
}

TEST(SecretsConfig, TakesNoValueThatIsTooLong) {
  SecretsConfig config;
  config.values = {{"KEY", std::string(kMaxSecretValue + 1, 'x')}};
  EXPECT_FALSE(SecretsConfig::decode(config.encode()));
}

TEST(SecretsConfig, TheMostThatMayBeFitsTheMessage) {
  SecretsConfig config;
  for (size_t i = 0; i < kMaxSecrets; ++i) {
    SecretRule rule;
    rule.name = "NAME_" + std::to_string(i) + std::string(120, 'N');
    config.values[rule.name] = std::string(kMaxSecretValues / kMaxSecrets, 'v');
    config.rules.push_back(rule);
  }
  while (encoded_size(config.rules) + 40 < kMaxSecretRules)
    config.rules.front().hosts.push_back("twenty.long.host.test");
  EXPECT_LE(config.encode().size(), kMaxSecretsMessage);
}

TEST(SecretsConfig, CutShortItIsNone) {
  SecretsConfig config;
  config.rules = {{"KEY", "env:KEY", {"a.test"}, {}, {}, "", false, "", ""}};
  config.values = {{"KEY", "0123456789"}};
  const Bytes whole = config.encode();
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(SecretsConfig::decode(ByteView(whole).first(size))) << size;
}

}
}
