#include <gmock/gmock.h>

#include "mvm/egress/resolv_conf.h"

#include "../../../src/egress/resolver.h"

namespace mvm::egress {
namespace {

using ::testing::ElementsAre;

dns::Name name(std::string_view text) { return dns::Name::parse(text).value(); }

dns::Record address(std::string_view owner, uint8_t last, uint32_t ttl = 60) {
  return {name(owner),
          dns::RecordType::A,
          ttl,
          {std::byte{93}, std::byte{184}, std::byte{216}, std::byte{last}}};
}
dns::Record alias(std::string_view owner, std::string_view target, uint32_t ttl = 60) {
  const dns::Name to = name(target);
  return {name(owner), dns::RecordType::Cname, ttl, {to.wire().begin(), to.wire().end()}};
}
std::vector<std::string> owners(const Answer& answer) {
  std::vector<std::string> all;
  for (const dns::Record& record : answer.records) all.push_back(record.owner.text());
  return all;
}
const Question kQuestion{name("a.example"), dns::RecordType::A};

TEST(PickAnswer, TakesTheChainInOrderAndNothingElse) {
  dns::Reply reply;
  reply.answers = {address("c.example", 1), address("evil.example", 2),
                   alias("b.example", "c.example"), alias("evil.example", "a.example"),
                   alias("a.example", "b.example")};
  const Answer answer = pick_answer(kQuestion, reply);
  EXPECT_EQ(answer.status, Answer::Status::Found);
  EXPECT_THAT(owners(answer), ElementsAre("a.example", "b.example", "c.example"));
}

TEST(PickAnswer, EndsWhereAliasesGoInCircles) {
  dns::Reply reply;
  reply.answers = {alias("a.example", "b.example"), alias("b.example", "a.example")};
  EXPECT_EQ(pick_answer(kQuestion, reply).records.size(), 16U);
}

TEST(PickAnswer, KeepsTimesWithinBounds) {
  dns::Reply reply;
  reply.answers = {address("a.example", 1, 1'000'000)};
  EXPECT_EQ(pick_answer(kQuestion, reply).records.at(0).ttl, 3600U);
  reply.answers.clear();
  reply.negative_ttl = 1'000'000;
  EXPECT_EQ(pick_answer(kQuestion, reply).negative_ttl, 300U);
  reply.negative_ttl.reset();
  EXPECT_EQ(pick_answer(kQuestion, reply).negative_ttl, 0U);
}

TEST(PickAnswer, LeavesOutServicesElsewhere) {
  const auto service = [](uint16_t priority, std::string_view target) {
    dns::Record record{name("a.example"), dns::RecordType::Https, 60, {}};
    Writer out(record.data);
    out.u16be(priority);
    out.bytes(name(target).wire());
    return record;
  };
  dns::Reply reply;
  reply.answers = {service(1, "."), service(1, "a.example"), service(1, "other.example"),
                   service(0, "other.example"), service(0, ".")};
  EXPECT_EQ(pick_answer({name("a.example"), dns::RecordType::Https}, reply).records.size(), 2U);
}

TEST(ResolvConf, NamesResolvers) {
  const auto found = parse_resolv_conf(
      "# nameserver 1.1.1.1\nsearch example\nnameserver 9.9.9.9\nnameserver\t2620:fe::fe # ours\n"
      "nameserver fe80::1%eth0\nnameservers 8.8.8.8\nnameserver 127.0.0.53\r\nnameserver "
      "8.8.4.4\n");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].address.text(), "9.9.9.9");
  EXPECT_EQ(found[1].address.text(), "2620:fe::fe");
  EXPECT_EQ(found[2].address.text(), "127.0.0.53");
  EXPECT_EQ(found[2].port, 53);
}

}
}
