#include "mvm/privacy/rules.h"

#include <gmock/gmock.h>

#include "mvm/base/error.h"
#include "mvm/proto/network.h"

namespace mvm::privacy {
namespace {

using protect::Finding;
using protect::PiiClass;
using ::testing::HasSubstr;

Action action_of(const Rules& rules, PiiClass kind, std::string_view host, uint16_t port = 443) {
  return rules.plan(host, port).action({kind, 0, 0, ""});
}

std::string complaint(const proto::PiiConfig& config) {
  try {
    compile(config);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}

TEST(PiiRules, ModesAreShortForActionsOfEveryClass) {
  for (const auto& [mode, action] : {std::pair{"disabled", Action::Allow},
                                     {"detect", Action::Detect},
                                     {"tokenize", Action::Tokenize},
                                     {"redact", Action::Redact},
                                     {"refuse", Action::Deny}}) {
    proto::PiiConfig config;
    config.mode = mode;
    const Rules rules = compile(config);
    EXPECT_EQ(action_of(rules, PiiClass::Email, "a.example"), action) << mode;
    EXPECT_EQ(action_of(rules, PiiClass::ApiKey, "192.0.2.1"), action) << mode;
    EXPECT_EQ(rules.plan("a.example", 443).looks(), action != Action::Allow);
  }
}

TEST(PiiRules, TheFirstThatNamesHostAndClassDecides) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.categories = {"personal", "card"};
  config.rules = {"allow email,phone at *.crm.example", "deny financial at pay.example:443",
                  "redact us_ssn"};
  const Rules rules = compile(config);
  EXPECT_EQ(action_of(rules, PiiClass::Email, "a.crm.example"), Action::Allow);
  EXPECT_EQ(action_of(rules, PiiClass::Card, "a.crm.example"), Action::Tokenize);
  EXPECT_EQ(action_of(rules, PiiClass::Email, "crm.example"), Action::Tokenize);
  EXPECT_EQ(action_of(rules, PiiClass::Iban, "pay.example"), Action::Deny);
  EXPECT_EQ(action_of(rules, PiiClass::Iban, "pay.example", 8443), Action::Allow);
  EXPECT_EQ(action_of(rules, PiiClass::UsSsn, "192.0.2.1"), Action::Redact);
  EXPECT_EQ(action_of(rules, PiiClass::ApiKey, "x.example"), Action::Allow);
}

TEST(PiiRules, BypassedHostsAreNotLookedInto) {
  proto::PiiConfig config;
  config.mode = "refuse";
  config.bypass = {"*.pinned.example", "db.example:5432", "*:22"};
  const Rules rules = compile(config);
  EXPECT_FALSE(rules.plan("a.pinned.example", 443).looks());
  EXPECT_TRUE(rules.plan("pinned.example", 443).looks());
  EXPECT_FALSE(rules.plan("db.example", 5432).looks());
  EXPECT_TRUE(rules.plan("db.example", 443).looks());
  EXPECT_FALSE(rules.plan("192.0.2.1", 22).looks());
}

TEST(PiiRules, PatternsAreClassesByTheirNames) {
  proto::PiiConfig config;
  config.mode = "detect";
  config.patterns = {R"(ticket TCK-\d+)", R"(member:luhn M(\d+))"};
  config.rules = {"deny ticket"};
  const Plan plan = compile(config).plan("a.example", 443);
  EXPECT_EQ(plan.action({PiiClass::Custom, 0, 0, "ticket"}), Action::Deny);
  EXPECT_EQ(plan.action({PiiClass::Custom, 0, 0, "member"}), Action::Detect);
}

TEST(PiiRules, ComplaintsNameTheEntryAndTheWords) {
  proto::PiiConfig config;
  config.mode = "hide";
  EXPECT_THAT(complaint(config), HasSubstr("pii.mode: \"hide\" is none of disabled, detect"));
  config = {};
  config.categories = {"e-mail"};
  EXPECT_THAT(complaint(config), HasSubstr("pii.categories: \"e-mail\" is no class"));
  config = {};
  for (const char* text : {"allow email at https://x", "mask email", "", "deny a b c"}) {
    config.rules = {"detect", text};
    EXPECT_THAT(complaint(config), HasSubstr("pii.rules: ")) << text;
  }
  config = {};
  config.patterns = {"email x"};
  EXPECT_THAT(complaint(config), HasSubstr("something else already"));
  config.patterns = {"x ("};
  EXPECT_THAT(complaint(config), HasSubstr("pii.patterns: the pattern 'x'"));
  config.patterns = {"x:crc (a)"};
  EXPECT_THAT(complaint(config), HasSubstr("\"crc\" is none of the checks"));
  config.patterns = {"x"};
  EXPECT_THAT(complaint(config), HasSubstr("is not a name and an expression"));
  config = {};
  config.bypass = {"*:0"};
  EXPECT_THAT(complaint(config), HasSubstr("pii.bypass: "));
  config = {};
  config.on_mismatch = "drop";
  EXPECT_THAT(complaint(config), HasSubstr("pii.on_mismatch: "));
}

TEST(PiiRules, SayWhoseConnectionsAreLookedInto) {
  const auto inspected = [](const proto::PiiConfig& config) {
    std::string out;
    for (const policy::InspectRule& rule : compile(config).inspect)
      out += (rule.inspect ? " +" : " -") + (rule.host ? rule.host->text() : "any") +
             (rule.ports.empty() ? "" : ":" + std::to_string(rule.ports[0]));
    return out;
  };
  proto::PiiConfig config;
  config.rules = {"deny email at a.example", "allow phone at b.example",
                  "detect at c.example:8443"};
  config.bypass = {"*:22"};
  EXPECT_EQ(inspected(config), " -any:22 +a.example +c.example:8443");
  config.mode = "detect";
  EXPECT_EQ(inspected(config), " -any:22 +a.example +c.example:8443 +any");
}

TEST(PiiConfig, TravelsAsItIs) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.categories = {"personal"};
  config.rules = {"deny email at a.example"};
  config.patterns = {"x:luhn y"};
  config.bypass = {"*:22"};
  config.on_mismatch = "deny";
  config.on_undecodable = "allow";
  config.token_lifetime_ms = 5;
  config.token_once = true;
  config.token_window_ms = 7;
  config.max_value = 65'536;
  config.max_growth = 8;
  EXPECT_EQ(proto::PiiConfig::decode(config.encode()), config);
  proto::NetworkConfig network;
  network.pii = config;
  EXPECT_EQ(proto::NetworkConfig::decode(network.encode()), network);
  const Bytes bytes = config.encode();
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(proto::PiiConfig::decode(ByteView(bytes).first(length)));
}

}
