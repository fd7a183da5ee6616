// How many names of a zone may be looked up.
#include "../../../src/egress/name_gate.h"

#include <gtest/gtest.h>

namespace mvm::egress {
namespace {

using std::chrono_literals::operator""min;

dns::Name name(const std::string& text) { return dns::Name::parse(text).value(); }

Judge judge_with(std::initializer_list<const char*> hosts, Mode mode = Mode::Enforce) {
  policy::Policy policy;
  for (const char* host : hosts) policy.hosts.push_back(policy::parse_host_rule(host).value());
  return {std::move(policy), mode};
}

NameGate gate_of(uint32_t names) {
  Limits limits;
  limits.names_per_zone = names;
  static const NameGate::Sources none;
  return {limits, none};
}

TEST(NameGate, AdmitsSoManyNamesOfAZoneInAnHour) {
  const Judge judge = judge_with({"*.example.com"});
  NameGate gate = gate_of(3);
  const NameGate::Time start = loop::Clock::now();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(gate.admits(judge, name(std::to_string(i) + ".example.com"), start + i * 10min));
  EXPECT_FALSE(gate.admits(judge, name("3.example.com"), start + 59min));
  // One that was asked for is no news, in whatever letters.
  EXPECT_TRUE(gate.admits(judge, name("0.EXAMPLE.com"), start + 59min));
  // An hour after the first one there is room for one, and none for that which has gone.
  EXPECT_TRUE(gate.admits(judge, name("3.example.com"), start + 60min));
  EXPECT_FALSE(gate.admits(judge, name("0.example.com"), start + 69min));
  EXPECT_TRUE(gate.admits(judge, name("0.example.com"), start + 70min));
}

TEST(NameGate, CountsEachZoneByItself) {
  const Judge judge = judge_with({"*.example.com:8443", "*.example.com", "*.example.org"});
  NameGate gate = gate_of(1);
  const NameGate::Time now = loop::Clock::now();
  EXPECT_TRUE(gate.admits(judge, name("a.example.com"), now));
  EXPECT_TRUE(gate.admits(judge, name("a.example.org"), now));
  // Two rules for one zone do not make it larger.
  EXPECT_FALSE(gate.admits(judge, name("b.example.com"), now));
  EXPECT_FALSE(gate.admits(judge, name("b.c.example.org"), now));
}

TEST(NameGate, CountsNoNameThatARuleSpellsOut) {
  const Judge judge = judge_with({"*.example.com", "api.example.com"});
  NameGate gate = gate_of(1);
  const NameGate::Time now = loop::Clock::now();
  EXPECT_TRUE(gate.admits(judge, name("a.example.com"), now));
  EXPECT_FALSE(gate.admits(judge, name("b.example.com"), now));
  EXPECT_TRUE(gate.admits(judge, name("api.example.com"), now));
}

TEST(NameGate, CountsTheZonesOfRoutesToo) {
  policy::Policy policy;
  policy.routes.push_back(policy::parse_endpoint("GET https://*.example.com/**").value());
  const Judge judge(std::move(policy), Mode::Enforce);
  NameGate gate = gate_of(1);
  const NameGate::Time now = loop::Clock::now();
  EXPECT_TRUE(gate.admits(judge, name("a.example.com"), now));
  EXPECT_FALSE(gate.admits(judge, name("b.example.com"), now));
}

TEST(NameGate, HasNoLimitWhereNoneIsWanted) {
  const Judge judge = judge_with({"*.example.com"});
  NameGate gate = gate_of(0);
  for (int i = 0; i < 1000; ++i)
    EXPECT_TRUE(gate.admits(judge, name(std::to_string(i) + ".example.com"), loop::Clock::now()));
}

}
}
