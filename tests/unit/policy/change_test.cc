// Rules for a sandbox that runs.
#include "mvm/policy/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/policy/compile.h"

namespace mvm::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string spelled(std::string_view text) {
  const auto word = parse_rule(text);
  return word ? word->text : "none";
}

Request ask(std::string_view host, uint16_t port, std::string method = "",
            std::string target = "") {
  Request request;
  request.host = dns::Name::parse(host);
  request.address = IpAddress::parse("8.8.8.8");
  request.port = port;
  request.method = std::move(method);
  request.target = std::move(target);
  return request;
}

TEST(RuleWords, HaveOneSpelling) {
  EXPECT_EQ(spelled("Example.COM."), "example.com");
  EXPECT_EQ(spelled("*.example.com:8443"), "*.example.com:8443");
  EXPECT_EQ(spelled("10.1.2.3/32"), "10.1.2.3");
  EXPECT_EQ(spelled("10.1.0.0/16:80"), "10.1.0.0/16:80");
  EXPECT_EQ(spelled("[FD00:0::1]:443"), "[fd00::1]:443");
  EXPECT_EQ(spelled("fd00::/8"), "fd00::/8");
  EXPECT_EQ(spelled("GET https://Example.com/a"), "GET https://example.com:443/a");
  EXPECT_EQ(spelled("GET http://example.com:80"), "GET http://example.com:80/");
  for (const char* text : {"", "a b", "--allow-host a.example", "https://a.example", "10.0.0.1/8"})
    EXPECT_EQ(spelled(text), "none") << text;
  EXPECT_THAT(*rule_complaint("a b"), HasSubstr("'a b' is neither a host"));
  // What is spelled again means the same.
  for (const char* text : {"a.example:1", "[::1]:80", "10.0.0.0/8", "PUT https://*.a.example/x/**"})
    EXPECT_EQ(spelled(spelled(text)), spelled(text));
}

TEST(RuleWords, ComeFromSuggestions) {
  EXPECT_EQ(suggested_rule("--allow-host a.example:443"), "a.example:443");
  EXPECT_EQ(suggested_rule("--allow-endpoint 'GET https://a.example:443/x'"),
            "GET https://a.example:443/x");
  EXPECT_EQ(suggested_rule(""), "");
}

TEST(Changes, TheNewestIsFirstAndTakesItsOppositeBack) {
  auto changes = changed({}, {{"a.example", "b.example"}, {}});
  EXPECT_THAT(changes.allow, ElementsAre("b.example", "a.example"));
  changes = changed(changes, {{}, {"a.example"}});
  EXPECT_THAT(changes.allow, ElementsAre("b.example"));
  EXPECT_THAT(changes.deny, ElementsAre("a.example"));
  changes = changed(changes, {{"a.example", "b.example"}, {}});
  EXPECT_THAT(changes.allow, ElementsAre("b.example", "a.example"));
  EXPECT_THAT(changes.deny, IsEmpty());
}

TEST(Changes, GoBeforeTheRulesThatItWasMadeWith) {
  proto::NetworkConfig made;
  made.allow_hosts = {"www.example"};
  made.routes = {{"api", "api.example", {443}, {{"r", "GET", "/v1/**", "allow"}}, "deny"}};
  const auto with = [&](const proto::PolicyChanges& changes) {
    Policy policy = compile(made);
    apply(changes, policy);
    return policy;
  };
  const auto outcome = [](const Policy& policy, const Request& request) {
    return decide(policy, request).outcome;
  };
  Policy policy = with({{"POST https://api.example/v1/x", "10.0.0.0/8"}, {"www.example"}});
  EXPECT_EQ(outcome(policy, ask("api.example", 443, "POST", "/v1/x")), Outcome::Allow);
  EXPECT_EQ(outcome(policy, ask("api.example", 443, "POST", "/v1/y")), Outcome::Deny);
  EXPECT_EQ(outcome(policy, ask("api.example", 443, "GET", "/v1/y")), Outcome::Allow);
  EXPECT_EQ(outcome(policy, ask("www.example", 443)), Outcome::Deny);
  Request inner = ask("api.example", 443, "GET", "/v1/y");
  inner.address = IpAddress::parse("10.1.2.3");
  EXPECT_EQ(outcome(policy, inner), Outcome::Allow);
  // A host as a whole, whatever its route says; and one path of it that stays shut.
  policy = with({{"api.example"}, {"DELETE https://api.example/**"}});
  EXPECT_EQ(outcome(policy, ask("api.example", 443, "POST", "/v2")), Outcome::Allow);
  EXPECT_EQ(outcome(policy, ask("api.example", 443, "DELETE", "/v2")), Outcome::Deny);
  EXPECT_TRUE(decide(policy, ask("api.example", 443)).inspect);
  EXPECT_FALSE(decide(with({{"api.example"}, {}}), ask("api.example", 443)).inspect);
  policy = with({{}, {"8.8.0.0/16"}});
  EXPECT_EQ(outcome(policy, ask("www.example", 443)), Outcome::Deny);
  EXPECT_THROW(with({{"nonsense x"}, {}}), Error);
}

TEST(Changes, TellWhatHasToBeLookedInto) {
  EXPECT_EQ(inspected_host("GET https://*.a.example/x")->text(), "*.a.example");
  EXPECT_FALSE(inspected_host("GET http://a.example/x"));
  EXPECT_FALSE(inspected_host("a.example"));
  EXPECT_FALSE(inspected_host("10.0.0.1"));
}

}
}
