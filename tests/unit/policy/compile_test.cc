// Rules in words to the policy that decides, and what a wrong word is told.
#include "mvm/policy/compile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::policy {
namespace {

using testing::HasSubstr;

Request ask(std::string_view host, uint16_t port, std::string method = "",
            std::string target = "") {
  Request request;
  request.host = dns::Name::parse(host);
  request.port = port;
  request.method = std::move(method);
  request.target = std::move(target);
  return request;
}

std::string complaint(const proto::NetworkConfig& config) {
  try {
    compile(config);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Invalid);
    return error.message();
  }
}

TEST(Compile, NoRuleAdmitsNothing) {
  const Policy policy = compile({});
  EXPECT_EQ(decide(policy, ask("example.com", 443)).outcome, Outcome::Deny);
}

TEST(Compile, TakesEveryKindOfRule) {
  proto::NetworkConfig config;
  config.allow_hosts = {"*.example.com:8443"};
  config.allow_cidr = {"10.1.0.0/16:5432"};
  config.allow_endpoints = {"GET https://api.example.net/v1/**"};
  config.routes = {{"forge",
                    "api.example.org",
                    {443},
                    {{"read", "GET", "/repos/**", "allow"}, {"", "*", "/admin/**", "deny"}},
                    "ask"}};
  const Policy policy = compile(config);
  EXPECT_EQ(decide(policy, ask("a.example.com", 8443)).outcome, Outcome::Allow);
  EXPECT_EQ(decide(policy, ask("api.example.net", 443, "GET", "/v1/x")).outcome, Outcome::Allow);
  EXPECT_EQ(decide(policy, ask("api.example.net", 443, "POST", "/v1/x")).outcome, Outcome::Deny);
  EXPECT_EQ(decide(policy, ask("api.example.org", 443, "GET", "/repos/a")).rule, "read");
  const Decision denied = decide(policy, ask("api.example.org", 443, "GET", "/admin/a"));
  EXPECT_EQ(denied.rule, "forge/2");
  EXPECT_EQ(denied.reason, Reason::RouteDenied);
  EXPECT_EQ(decide(policy, ask("api.example.org", 443, "PUT", "/other")).outcome, Outcome::Ask);
  Request range;
  range.address = IpAddress::parse("10.1.2.3");
  range.port = 5432;
  EXPECT_EQ(decide(policy, range).outcome, Outcome::Allow);
}

TEST(Compile, AnEndpointLeavesWhatItDoesNotNameToTheRulesBehind) {
  proto::NetworkConfig config;
  config.allow_endpoints = {"GET https://example.com/a"};
  config.allow_hosts = {"example.com"};
  const Policy policy = compile(config);
  EXPECT_EQ(decide(policy, ask("example.com", 443, "GET", "/b")).rule, "allow-host example.com");
}

TEST(Compile, TakesManyRulesThatRepeatAndOverlap) {
  proto::NetworkConfig config;
  config.allow_hosts = {"api.example.com", "*.example.com", "api.example.com", "API.example.com."};
  while (config.allow_hosts.size() < proto::kMaxNetworkRules)
    config.allow_hosts.push_back("host" + std::to_string(config.allow_hosts.size()) +
                                 ".example.org");
  const Policy policy = compile(config);
  EXPECT_EQ(decide(policy, ask("api.example.com", 443, "GET", "/")).outcome, Outcome::Allow);
  EXPECT_EQ(decide(policy, ask("www.example.com", 443, "GET", "/")).rule,
            "allow-host *.example.com");
  EXPECT_EQ(decide(policy, ask("host1023.example.org", 443, "GET", "/")).outcome, Outcome::Allow);
  EXPECT_EQ(decide(policy, ask("host1024.example.org", 443, "GET", "/")).outcome, Outcome::Deny);
  for (const char* none : {"", "*", "*.", ".", ".example.com"}) {
    config.allow_hosts = {"api.example.com", none};
    EXPECT_THAT(complaint(config), HasSubstr("is not a host such as")) << none;
  }
}

TEST(Compile, SaysWhichWordIsWrongAndWhatIsRight) {
  proto::NetworkConfig config;
  config.allow_hosts = {"10.0.0.1"};
  EXPECT_EQ(complaint(config), "allow_hosts: \"10.0.0.1\" is an address; those are for allow_cidr");
  config.allow_hosts = {"exa mple.com"};
  EXPECT_THAT(complaint(config), HasSubstr("is not a host such as example.com"));
  config = {};
  config.allow_cidr = {"10.0.0.1/8"};
  EXPECT_THAT(complaint(config), HasSubstr("allow_cidr: \"10.0.0.1/8\" is not a range"));
  config = {};
  config.allow_endpoints = {"https://example.com"};
  EXPECT_THAT(complaint(config), HasSubstr("is not an endpoint such as"));
  config = {};
  config.resolvers = {"dns.example"};
  EXPECT_THAT(complaint(config), HasSubstr("resolvers: \"dns.example\" is not a name server's"));
  config = {};
  config.routes = {{"", "example.com", {443}, {{"", "get", "/", "allow"}}, "deny"}};
  EXPECT_THAT(complaint(config), HasSubstr("routes[0].rules[0].method: \"get\" is not a method"));
  config.routes = {{"", "example.com:443", {443}, {}, "deny"}};
  EXPECT_THAT(complaint(config), HasSubstr("routes[0].port: the host names a port already"));
  config.routes = {{"", "example.com", {0}, {}, "deny"}};
  EXPECT_THAT(complaint(config), HasSubstr("must be from 1 to 65535"));
  config.routes = {{"", "example.com", {}, {}, "perhaps"}};
  EXPECT_THAT(complaint(config), HasSubstr("otherwise: \"perhaps\" is none of"));
}

TEST(ParseResolver, TakesAddressesWithAndWithoutAPort) {
  EXPECT_EQ(parse_resolver("9.9.9.9")->port, 53);
  EXPECT_EQ(parse_resolver("9.9.9.9:5353")->port, 5353);
  EXPECT_EQ(parse_resolver("2620:fe::fe")->address.text(), "2620:fe::fe");
  EXPECT_EQ(parse_resolver("[2620:fe::fe]:5353")->port, 5353);
  for (const char* text : {"", "dns.example", "9.9.9.9:", "9.9.9.9:0", "9.9.9.9:65536",
                           "[9.9.9.9]:53", "[2620:fe::fe]", "2620:fe::fe:53:zz"})
    EXPECT_FALSE(parse_resolver(text)) << text;
}

}
}
