#include "mvm/policy/policy.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace mvm::policy {
namespace {

dns::Name name(std::string_view text) { return dns::Name::parse(text).value(); }

// "GET https://host[:port]/path", "host:port" or "host"
Request ask(std::string_view host, std::optional<uint16_t> port = std::nullopt,
            std::string_view address = "") {
  Request request;
  request.host = name(host);
  request.port = port;
  if (!address.empty()) request.address = IpAddress::parse(address).value();
  return request;
}
Request http(std::string_view method, std::string_view host, std::string_view target,
             uint16_t port = 443) {
  Request request = ask(host, port, "8.8.8.8");
  request.method = method;
  request.target = target;
  return request;
}
Route route(std::string_view host, std::vector<RouteRule> rules,
            std::optional<Outcome> otherwise = Outcome::Deny) {
  return {"route " + std::string(host),
          HostPattern::parse(host).value(),
          {},
          std::move(rules),
          otherwise};
}
RouteRule rule(std::string_view method, std::string_view path, Outcome outcome) {
  return {std::string(method) + " " + std::string(path), std::string(method),
          PathPattern::parse(path).value(), outcome};
}
std::string_view why(const Policy& policy, const Request& request) {
  return reason_word(decide(policy, request).reason);
}

TEST(Decide, RefusesWhatNoRuleNames) {
  EXPECT_EQ(why({}, ask("example.com")), "policy_denied");
  EXPECT_EQ(why({}, ask("example.com", 443, "8.8.8.8")), "policy_denied");
  Request address;
  address.address = IpAddress::parse("8.8.8.8");
  address.port = 443;
  EXPECT_EQ(why({}, address), "policy_denied");
  EXPECT_EQ(why({}, Request{}), "policy_denied");
}

TEST(Decide, HostRulesAreForTheirPorts) {
  Policy policy;
  policy.hosts = {parse_host_rule("example.com").value(),
                  parse_host_rule("db.example.com:5432").value()};
  EXPECT_EQ(why(policy, ask("example.com")), "allowed");
  EXPECT_EQ(why(policy, ask("example.com", 443, "8.8.8.8")), "allowed");
  EXPECT_EQ(why(policy, ask("example.com", 80, "8.8.8.8")), "allowed");
  EXPECT_EQ(why(policy, ask("example.com", 22, "8.8.8.8")), "policy_denied");
  EXPECT_EQ(why(policy, ask("db.example.com", 5432, "8.8.8.8")), "allowed");
  EXPECT_EQ(why(policy, ask("db.example.com", 443, "8.8.8.8")), "policy_denied");
  EXPECT_FALSE(decide(policy, ask("example.com", 443, "8.8.8.8")).inspect);
}

TEST(Decide, AnAllowedNameDoesNotOpenAPrivateAddress) {
  Policy policy;
  policy.hosts = {parse_host_rule("*.corp.example").value()};
  EXPECT_EQ(why(policy, ask("wiki.corp.example", 443, "10.1.2.3")), "private_range");
  EXPECT_EQ(why(policy, ask("wiki.corp.example", 443, "::ffff:10.1.2.3")), "embedded_restricted");
  policy.ranges = {parse_range_rule("10.1.0.0/16:443").value()};
  EXPECT_EQ(why(policy, ask("wiki.corp.example", 443, "10.1.2.3")), "allowed");
  EXPECT_EQ(why(policy, ask("wiki.corp.example", 80, "10.1.2.3")), "private_range");
  EXPECT_EQ(why(policy, ask("wiki.corp.example", 443, "10.2.2.3")), "private_range");
}

TEST(Decide, NoRuleOpensMetadataOrLinkLocalAddresses) {
  Policy policy;
  policy.hosts = {parse_host_rule("example.com").value()};
  policy.ranges = {parse_range_rule("0.0.0.0/0").value(), parse_range_rule("::/0").value()};
  EXPECT_EQ(why(policy, ask("example.com", 80, "169.254.169.254")), "cloud_metadata");
  EXPECT_EQ(why(policy, ask("example.com", 80, "169.254.0.1")), "link_local");
  EXPECT_EQ(why(policy, ask("example.com", 80, "fe80::1")), "link_local");
  EXPECT_EQ(why(policy, ask("example.com", 80, "::ffff:169.254.169.254")), "embedded_restricted");
  EXPECT_EQ(why(policy, ask("example.com", 80, "127.0.0.1")), "allowed");
}

TEST(Decide, TheFirstRuleThatMatchesARequestDecides) {
  Policy policy;
  policy.routes = {route(
      "api.example", {rule("GET", "/v1/**", Outcome::Allow), rule("DELETE", "/v1/*", Outcome::Ask),
                      rule("*", "/admin/**", Outcome::Deny)})};
  EXPECT_EQ(why(policy, ask("api.example")), "allowed");
  const Decision connection = decide(policy, ask("api.example", 443, "8.8.8.8"));
  EXPECT_EQ(connection.outcome, Outcome::Allow);
  EXPECT_TRUE(connection.inspect);
  EXPECT_EQ(why(policy, http("GET", "api.example", "/v1/models?x=1")), "allowed");
  EXPECT_EQ(why(policy, http("POST", "api.example", "/v1/models")), "route_denied");
  EXPECT_EQ(why(policy, http("DELETE", "api.example", "/v1/x")), "ask_user");
  EXPECT_EQ(why(policy, http("GET", "api.example", "/admin/x")), "route_denied");
  EXPECT_EQ(why(policy, http("GET", "api.example", "/v1/../admin")), "ambiguous_path");
  EXPECT_EQ(decide(policy, http("GET", "api.example", "/v1/a")).rule, "GET /v1/**");
}

TEST(Decide, ARouteGoesBeforeAHostRule) {
  Policy policy;
  policy.hosts = {parse_host_rule("*.example.com").value()};
  policy.routes = {route("api.example.com", {rule("*", "/admin/**", Outcome::Deny)}, std::nullopt)};
  EXPECT_EQ(why(policy, http("GET", "api.example.com", "/x")), "allowed");
  EXPECT_EQ(why(policy, http("GET", "api.example.com", "/admin/x")), "route_denied");
  // The connection has to be inspected for the denial to hold.
  EXPECT_TRUE(decide(policy, ask("api.example.com", 443, "8.8.8.8")).inspect);
  EXPECT_FALSE(decide(policy, ask("www.example.com", 443, "8.8.8.8")).inspect);
}

TEST(Decide, ADenialGoesBeforeEveryRule) {
  Policy policy;
  policy.hosts = {parse_host_rule("*.example.com").value()};
  policy.ranges = {parse_range_rule("10.0.0.0/8").value()};
  policy.routes = {route("api.example.com", {rule("*", "/**", Outcome::Allow)})};
  policy.denied_hosts = {{"deny a", HostPattern::parse("api.example.com").value(), {}},
                         {"deny b", HostPattern::parse("www.example.com").value(), {443}}};
  policy.denied_ranges = {parse_range_rule("10.1.0.0/16:443").value(),
                          parse_range_rule("9.9.9.0/24").value()};
  EXPECT_EQ(why(policy, ask("api.example.com")), "policy_denied");
  EXPECT_EQ(why(policy, http("GET", "api.example.com", "/x")), "policy_denied");
  EXPECT_EQ(decide(policy, ask("api.example.com", 8080)).rule, "deny a");
  // One port of a name: the name itself is looked up for the others.
  EXPECT_EQ(why(policy, ask("www.example.com")), "allowed");
  EXPECT_EQ(why(policy, ask("www.example.com", 443)), "policy_denied");
  EXPECT_EQ(why(policy, ask("www.example.com", 80)), "allowed");
  EXPECT_EQ(why(policy, ask("a.example.com", 443, "10.1.2.3")), "policy_denied");
  EXPECT_EQ(why(policy, ask("a.example.com", 80, "10.1.2.3")), "allowed");
  // The same host by an address that carries its own (NAT64).
  EXPECT_EQ(why(policy, ask("a.example.com", 80, "9.9.9.9")), "policy_denied");
  EXPECT_EQ(why(policy, ask("a.example.com", 80, "64:ff9b::909:909")), "policy_denied");
  EXPECT_EQ(why(policy, ask("a.example.com", 80, "64:ff9b::808:808")), "allowed");
  // No flag undoes it.
  const Request refused = ask("api.example.com", 443, "8.8.8.8");
  EXPECT_FALSE(suggestion(refused, decide(policy, refused)));
}

TEST(Decide, ARouteWithoutRulesJudgesConnectionsAsTheyAre) {
  Policy policy;
  policy.routes = {route("a.t.example", {}, Outcome::Ask), route("b.t.example", {}, Outcome::Allow),
                   route("*.t.example", {rule("PUT", "/**", Outcome::Deny)}, std::nullopt),
                   route("c.t.example", {}, Outcome::Ask)};
  EXPECT_EQ(why(policy, ask("a.t.example", 443, "8.8.8.8")), "ask_user");
  EXPECT_FALSE(decide(policy, ask("a.t.example", 443, "8.8.8.8")).inspect);
  EXPECT_EQ(why(policy, http("GET", "a.t.example", "/x")), "ask_user");
  EXPECT_EQ(why(policy, ask("b.t.example", 443, "8.8.8.8")), "allowed");
  EXPECT_FALSE(decide(policy, ask("b.t.example", 443, "8.8.8.8")).inspect);
  // A rule before it has to see the requests.
  EXPECT_TRUE(decide(policy, ask("c.t.example", 443, "8.8.8.8")).inspect);
  EXPECT_EQ(why(policy, http("PUT", "c.t.example", "/x")), "route_denied");
}

// People paste it into a shell; the guest chose method and path.
TEST(Suggestion, IsOneWordForAShell) {
  Policy policy;
  const auto suggested = [&](const Request& request) {
    return suggestion(request, decide(policy, request)).value_or("none");
  };
  EXPECT_EQ(suggested(http("GET", "a.example", "/x'$(reboot)'")),
            "--allow-endpoint 'GET https://a.example:443/x%27$(reboot)%27'");
  EXPECT_EQ(suggested(http("G'`reboot`'", "a.example", "/x")), "none");
}

TEST(NearMiss, IsTheOtherFormOfARulesName) {
  Policy policy;
  policy.hosts = {parse_host_rule("*.a.example").value(), parse_host_rule("b.example").value()};
  policy.routes = {route("c.example", {rule("GET", "/**", Outcome::Allow)})};
  const auto note = [&](const Request& request) {
    return near_miss(policy, request, decide(policy, request));
  };
  EXPECT_EQ(
      note(ask("a.example", 443)),
      "rule 'allow-host *.a.example' does not cover it: *.a.example is what is below that name, "
      "not the name itself");
  EXPECT_EQ(note(ask("www.b.example", 443)),
            "rule 'allow-host b.example' does not cover it: b.example is that name alone, nothing "
            "below it");
  EXPECT_NE(note(ask("www.c.example", 443)).find("c.example is that name alone"),
            std::string::npos);
  for (const char* host : {"www.a.example", "b.example", "c.example", "d.example", "xb.example"})
    EXPECT_EQ(note(ask(host, 443)), "") << host;
}

TEST(Decide, OneNameForThePinTheHandshakeAndTheRequest) {
  Policy policy;
  policy.hosts = {parse_host_rule("a.example").value(), parse_host_rule("b.example").value()};
  Request request = ask("a.example", 443, "8.8.8.8");
  request.server_name = name("b.example");
  EXPECT_EQ(why(policy, request), "sni_mismatch");
  request.server_name = name("a.example");
  request.authority = name("b.example");
  EXPECT_EQ(why(policy, request), "authority_mismatch");
}

TEST(Decide, InspectRulesLookIntoWhatIsAdmittedAndAdmitNothing) {
  Policy policy;
  policy.hosts.push_back(parse_host_rule("*.example.com").value());
  policy.ranges.push_back(parse_range_rule("93.184.216.0/24").value());
  policy.inspect.push_back({HostPattern::parse("bypass.example.com").value(), {443}, false});
  policy.inspect.push_back({HostPattern::parse("*.example.com").value(), {443}, true});
  const auto ask = [&](const char* host, uint16_t port) {
    Request request;
    request.host = dns::Name::parse(host).value();
    request.port = port;
    return decide(policy, request);
  };
  EXPECT_TRUE(ask("a.example.com", 443).inspect);
  EXPECT_FALSE(ask("a.example.com", 80).inspect);
  EXPECT_FALSE(ask("bypass.example.com", 443).inspect);
  EXPECT_EQ(ask("example.com", 443).outcome, Outcome::Deny);
  EXPECT_FALSE(ask("example.com", 443).inspect);
  Request bare;
  bare.address = IpAddress::parse("93.184.216.34").value();
  bare.port = 443;
  EXPECT_FALSE(decide(policy, bare).inspect);
  policy.inspect = {{std::nullopt, {}, true}};
  EXPECT_TRUE(decide(policy, bare).inspect);
  EXPECT_TRUE(ask("a.example.com", 80).inspect);
}

TEST(Rules, AreReadAsFlagsSpellThem) {
  EXPECT_FALSE(parse_host_rule("10.0.0.1"));
  EXPECT_FALSE(parse_host_rule("10.0.0.1.:80"));
  EXPECT_FALSE(parse_endpoint("GET https://10.0.0.1./"));
  EXPECT_FALSE(parse_host_rule("example.com:0"));
  EXPECT_FALSE(parse_host_rule("example.com:65536"));
  EXPECT_FALSE(parse_host_rule("example.com:"));
  EXPECT_FALSE(parse_host_rule("https://example.com"));
  EXPECT_EQ(parse_range_rule("[fd00::1]:443")->ports, std::vector<uint16_t>{443});
  EXPECT_TRUE(parse_range_rule("fd00::/8")->ports.empty());
  EXPECT_FALSE(parse_range_rule("10.0.0.1/8"));
  EXPECT_FALSE(parse_range_rule("[fd00::1"));
  EXPECT_FALSE(parse_range_rule("[fd00::1]x"));
  for (const char* text : {"GET example.com/", "GET ftp://example.com/", "https://example.com/",
                           "G T https://example.com/", "GET https://10.0.0.1/", "GET https:///x",
                           "GET https://example.com/a/../b", "GET https://u@example.com/"})
    EXPECT_FALSE(parse_endpoint(text)) << text;
  EXPECT_EQ(parse_endpoint("GET https://example.com")->ports, std::vector<uint16_t>{443});
  EXPECT_EQ(parse_endpoint("GET http://example.com/x")->ports, std::vector<uint16_t>{80});
}

// ---- properties, over seeded random policies and questions --------------------------------------

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(engine_); }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return *(all.begin() + below(all.size()));
  }

  std::string_view pattern() {
    return one_of<std::string_view>({"a.example", "b.example", "*.b.example", "c.b.example"});
  }
  RouteRule route_rule(Outcome outcome) {
    return rule(one_of<std::string_view>({"GET", "POST", "*"}),
                one_of<std::string_view>({"/**", "/x", "/x/**", "/*"}), outcome);
  }
  Outcome outcome() { return one_of({Outcome::Allow, Outcome::Deny, Outcome::Ask}); }
  Route any_route() {
    Route made =
        route(pattern(), {}, one_of<std::optional<Outcome>>({std::nullopt, Outcome::Deny}));
    for (size_t n = below(4); n > 0; --n) made.rules.push_back(route_rule(outcome()));
    return made;
  }
  HostDenial denial() {
    const auto ports = one_of<std::vector<uint16_t>>({{}, {80}, {443}});
    return {"denial", HostPattern::parse(pattern()).value(), ports};
  }
  RangeRule range_denial() {
    return parse_range_rule(one_of<std::string_view>({"10.0.0.0/31", "8.8.8.8:443", "8.0.0.0/8"}))
        .value();
  }
  Policy policy() {
    Policy made;
    for (size_t n = below(4); n > 0; --n) made.routes.push_back(any_route());
    for (size_t n = below(3); n > 0; --n) made.hosts.push_back(parse_host_rule(pattern()).value());
    if (below(2) == 0) made.ranges.push_back(parse_range_rule("10.0.0.0/24").value());
    if (below(4) == 0) made.denied_hosts.push_back(denial());
    return made;
  }
  Request question() {
    Request made = ask(one_of<std::string_view>({"a.example", "b.example", "c.b.example"}));
    if (below(4) == 0) return made;
    made.port = one_of<uint16_t>({80, 443, 8443});
    made.address = IpAddress::parse(one_of<std::string_view>({"8.8.8.8", "10.0.0.1", "10.1.0.1"}));
    if (below(4) == 0) return made;
    made.method = one_of<std::string_view>({"GET", "POST"});
    made.target = one_of<std::string_view>({"/", "/x", "/x/y?z", "/z/../x"});
    return made;
  }
  template <typename T>
  void insert(std::vector<T>& into, T value) {
    into.insert(into.begin() + static_cast<std::ptrdiff_t>(below(into.size() + 1)),
                std::move(value));
  }

 private:
  std::mt19937 engine_;
};

constexpr int kTries = 5'000;

int freedom(Outcome outcome) {
  return outcome == Outcome::Allow ? 2 : outcome == Outcome::Ask ? 1 : 0;
}

TEST(Properties, AddingADenialNeverWidens) {
  Random random(1);
  int narrowed = 0;
  for (int i = 0; i < kTries; ++i) {
    const Policy before = random.policy();
    Policy after = before;
    if (random.below(4) == 0) {
      random.insert(after.denied_hosts, random.denial());
    } else if (random.below(4) == 0) {
      random.insert(after.denied_ranges, random.range_denial());
    } else if (after.routes.empty() || random.below(2) == 0) {
      random.insert(after.routes,
                    route(random.pattern(), {random.route_rule(Outcome::Deny)},
                          random.one_of<std::optional<Outcome>>({std::nullopt, Outcome::Deny})));
    } else {
      random.insert(after.routes[random.below(after.routes.size())].rules,
                    random.route_rule(Outcome::Deny));
    }
    const Request question = random.question();
    const int was = freedom(decide(before, question).outcome);
    const int is = freedom(decide(after, question).outcome);
    ASSERT_LE(is, was) << "try " << i;
    if (is < was) ++narrowed;
  }
  EXPECT_GT(narrowed, kTries / 200);  // the questions meet the rules
}

TEST(Properties, TheOrderOfUnrelatedRulesDoesNotMatter) {
  Random random(2);
  for (int i = 0; i < kTries; ++i) {
    Policy policy = random.policy();
    // For hosts that none of the others is for, as no two of these match one name.
    Route first = random.any_route();
    first.host = HostPattern::parse("one.test").value();
    Route second = random.any_route();
    second.host = HostPattern::parse("*.two.test").value();
    random.insert(policy.routes, first);
    Policy other = policy;
    random.insert(policy.routes, second);
    random.insert(other.routes, second);
    Request question = random.question();
    if (random.below(2) == 0)
      question.host = name(random.one_of<std::string_view>({"one.test", "a.two.test", "two.test"}));
    const Decision mine = decide(policy, question);
    const Decision theirs = decide(other, question);
    ASSERT_EQ(mine.outcome, theirs.outcome) << "try " << i;
    ASSERT_EQ(mine.reason, theirs.reason) << "try " << i;
    ASSERT_EQ(mine.rule, theirs.rule) << "try " << i;
  }
}

// Takes a suggestion as the command line would: what a flag says goes before the manifest.
void take(Policy& policy, std::string_view flag) {
  const size_t blank = flag.find(' ');
  const std::string_view what = flag.substr(0, blank);
  std::string_view value = flag.substr(blank + 1);
  if (what == "--allow-host") {
    policy.hosts.push_back(parse_host_rule(value).value());
  } else if (what == "--allow-cidr") {
    policy.ranges.push_back(parse_range_rule(value).value());
  } else {
    ASSERT_EQ(what, "--allow-endpoint");
    value = value.substr(1, value.size() - 2);
    policy.routes.insert(policy.routes.begin(), parse_endpoint(value).value());
  }
}

TEST(Properties, ASuggestionAdmitsWhatWasRefusedAndNothingElse) {
  Random random(3);
  int followed = 0;
  for (int i = 0; i < kTries; ++i) {
    const Policy before = random.policy();
    Policy after = before;
    const Request question = random.question();
    Decision decision = decide(before, question);
    // A name and then its address: two rules at most.
    for (int step = 0; step < 2; ++step) {
      const auto flag = suggestion(question, decision);
      // Where no rule has said no, there is one that would say yes.
      if (decision.reason == Reason::PolicyDenied && decision.rule.empty() &&
          (question.method.empty() || normal_path(question.target))) {
        ASSERT_TRUE(flag) << "try " << i;
      }
      if (!flag) break;
      take(after, *flag);
      decision = decide(after, question);
      ++followed;
      if (decision.outcome == Outcome::Allow) break;
      ASSERT_NE(decision.reason, Reason::PolicyDenied) << *flag;
      ASSERT_NE(decision.reason, Reason::RouteDenied) << *flag;
    }
    if (decision.outcome != Outcome::Allow) continue;

    Request other = random.question();
    // The suggestion for a query is for connections to that host; compare other hosts only.
    if (other.host == question.host && (question.method.empty() || other.method.empty())) continue;
    if (other.host == question.host && other.method == question.method &&
        other.port == question.port && normal_path(other.target) == normal_path(question.target))
      continue;
    if (other.address == question.address && other.port == question.port) continue;
    ASSERT_EQ(decide(after, other).outcome, decide(before, other).outcome) << "try " << i;
  }
  EXPECT_GT(followed, kTries / 10);
}

}
}
