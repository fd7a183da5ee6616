// The guest's resolver, asked by real clients.
#include <sys/mount.h>

#include <gmock/gmock.h>

#include "mvm/base/scope_exit.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Dns : public EgressTest {
 protected:
  // What dig says of a name, in short: addresses, one a line.
  std::string dig(std::vector<std::string> words) {
    std::vector<std::string> argv{"dig", "+short", "+tries=1", "+time=3"};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv).out;
  }
  std::string dig_all(std::vector<std::string> words) {
    std::vector<std::string> argv{"dig", "+tries=1", "+time=3"};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv).out;
  }
};

TEST_F(Dns, AnswersNamesThatARuleAdmits) {
  resolver_.add("example.com", "93.184.216.34");
  resolver_.add("example.com", "2606:2800:220:1::1");
  allow_host("example.com");
  start_proxy();
  EXPECT_EQ(dig({"example.com"}), "93.184.216.34\n");
  EXPECT_EQ(dig({"example.com", "AAAA"}), "2606:2800:220:1::1\n");
  EXPECT_THAT(guest({"getent", "ahosts", "example.com"}).out, HasSubstr("93.184.216.34"));
  EXPECT_THAT(told(), Contains("dns allow allowed A example.com"));
  EXPECT_EQ(events_.at(0).rule, "allow-host example.com");
}

TEST_F(Dns, NeverAsksForANameThatNoRuleAdmits) {
  resolver_.add("evil.test", "6.6.6.6");
  allow_host("example.com");
  start_proxy();
  const auto out = dig_all({"secret123.evil.test", "A"});
  EXPECT_THAT(out, HasSubstr("status: NXDOMAIN"));
  EXPECT_THAT(out, HasSubstr("EDE: 15 (Blocked)"));
  EXPECT_THAT(out, HasSubstr("mvm: policy_denied; --allow-host secret123.evil.test:443"));
  EXPECT_THAT(dig_all({"secret123.evil.test", "TXT"}), HasSubstr("status: NXDOMAIN"));
  EXPECT_THAT(resolver_.asked, IsEmpty());
  EXPECT_THAT(told(), ElementsAre("dns deny policy_denied A secret123.evil.test",
                                  "dns deny policy_denied TYPE16 secret123.evil.test"));
}

// A rule for a host is none for what is below it; the answer says which would be.
TEST_F(Dns, SaysWhichRuleASubdomainNeeds) {
  allow_host("vendor.example");
  start_proxy();
  EXPECT_THAT(dig_all({"www.vendor.example"}),
              HasSubstr("mvm: policy_denied; rule 'allow-host vendor.example' does not cover it: "
                        "vendor.example is "
                        "that name alone, nothing below it; --allow-host www.vendor.example:443"));
  EXPECT_THAT(resolver_.asked, IsEmpty());
}

// Those that know the names of a company's own network.
TEST_F(Dns, AsksTheHostsOwnResolvers) {
  const std::string own = file("own.conf", "# of this host\nsearch x\nnameserver 198.41.0.4\n");
  ASSERT_EQ(::mount(own.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr), 0);
  const ScopeExit unmount([] { ::umount("/etc/resolv.conf"); });
  resolver_.add("intra.example", "93.184.216.34");
  settings_.resolvers.clear();
  allow_host("intra.example");
  start_proxy();
  EXPECT_EQ(dig({"intra.example"}), "93.184.216.34\n");
}

TEST_F(Dns, FailsARefusedLookupAtOnce) {
  start_proxy();
  const auto before = loop::Clock::now();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "try: socket.getaddrinfo('evil.test', 443)\n"
                           "except socket.gaierror as e: print(e.errno == socket.EAI_NONAME)"});
  EXPECT_EQ(exit.out, "True\n") << exit.err;
  EXPECT_LT(loop::Clock::now() - before, std::chrono::seconds(3));
  EXPECT_EQ(proxy_->counters().queries, 2U);  // A and AAAA, once each
}

TEST_F(Dns, ServesWhateverResolverTheGuestAddresses) {
  resolver_.add("example.com", "93.184.216.34");
  allow_host("example.com");
  start_proxy();
  for (const char* server : {"@9.9.9.9", "@169.254.169.253", "@2620:fe::fe", "@fd6d:766d::1"}) {
    EXPECT_EQ(dig({server, "example.com"}), "93.184.216.34\n") << server;
    EXPECT_EQ(dig({server, "+tcp", "example.com"}), "93.184.216.34\n") << server;
  }
}

TEST_F(Dns, KeepsAnswersForAsLongAsTheyHold) {
  resolver_.add("example.com", "93.184.216.34", 300);
  resolver_.add("moving.example", "93.184.216.35", 0);
  allow_host("example.com");
  allow_host("moving.example");
  allow_host("nothing.example");
  start_proxy();
  dig({"example.com"});
  EXPECT_THAT(dig_all({"Example.COM"}), HasSubstr("Example.COM."));
  dig({"moving.example"});
  dig({"moving.example"});
  EXPECT_THAT(resolver_.asked,
              ElementsAre("udp example.com A", "udp moving.example A", "udp moving.example A"));
}

// RFC 2308: for as long as the zone says, which is the lesser of its record's time and the field in
// it.
TEST_F(Dns, KeepsThatThereIsNone) {
  resolver_.negative_ttl = 300;
  for (const char* host : {"nothing.example", "brief.example"}) allow_host(host);
  start_proxy();
  EXPECT_THAT(dig_all({"nothing.example"}), HasSubstr("NXDOMAIN"));
  EXPECT_THAT(dig_all({"nothing.example"}), HasSubstr("NXDOMAIN"));
  EXPECT_THAT(resolver_.asked, ElementsAre("udp nothing.example A"));
  resolver_.negative_ttl = 0;
  dig({"brief.example"});
  dig({"brief.example"});
  EXPECT_THAT(resolver_.asked,
              ElementsAre("udp nothing.example A", "udp brief.example A", "udp brief.example A"));
}

TEST_F(Dns, FollowsAliases) {
  resolver_.add_alias("www.example.com", "cdn.example.net");
  resolver_.add_alias("cdn.example.net", "edge.example.org");
  resolver_.add("edge.example.org", "93.184.216.34");
  allow_host("www.example.com");
  start_proxy();
  EXPECT_EQ(dig({"www.example.com"}), "cdn.example.net.\nedge.example.org.\n93.184.216.34\n");
  // The alias is not thereby a name of the guest's.
  EXPECT_EQ(dig({"edge.example.org"}), "");
}

TEST_F(Dns, LeavesOutAddressesThatAreNotPublic) {
  for (const char* address :
       {"127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "fd00::1", "::1", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::"})
    resolver_.add("rebound.example", address, 0);
  resolver_.add("mixed.example", "10.0.0.1", 0);
  resolver_.add("mixed.example", "93.184.216.34", 0);
  allow_host("rebound.example");
  allow_host("mixed.example");
  start_proxy();
  EXPECT_EQ(dig({"rebound.example", "A"}), "");
  EXPECT_EQ(dig({"rebound.example", "AAAA"}), "");
  EXPECT_EQ(dig({"mixed.example"}), "93.184.216.34\n");
  EXPECT_EQ(proxy_->counters().pins, 2U);  // 80 and 443 of the one that is public
  EXPECT_THAT(told(), Contains("dns deny loopback A rebound.example 127.0.0.1"));
  EXPECT_THAT(told(), Contains("dns deny private_range A mixed.example 10.0.0.1"));
}

TEST_F(Dns, OpensPrivateRangesThatARuleNames) {
  resolver_.add("mirror.corp.example", "10.1.2.3");
  resolver_.add("metadata.corp.example", "169.254.169.254");
  allow_host("*.corp.example");
  allow_range("10.0.0.0/8");
  allow_range("169.254.0.0/16");
  start_proxy();
  EXPECT_EQ(dig({"mirror.corp.example"}), "10.1.2.3\n");
  EXPECT_EQ(dig({"metadata.corp.example"}), "");
}

TEST_F(Dns, SendsNoTypesThatCarryText) {
  resolver_.add("example.com", "93.184.216.34");
  allow_host("example.com");
  start_proxy();
  for (const char* type : {"TXT", "MX", "NULL", "ANY", "SRV"})
    EXPECT_THAT(dig_all({"example.com", type}), HasSubstr("status: NOERROR")) << type;
  EXPECT_THAT(resolver_.asked, IsEmpty());
}

TEST_F(Dns, StripsWhatLeadsPastTheProxy) {
  // Priority 1, the name itself; alpn h2 and h3, an IPv4 hint, an encrypted hello.
  Bytes data;
  Writer out(data);
  out.u16be(1);
  out.u8(0);
  out.u16be(1);
  out.u16be(6);
  out.text("\2h2\2h3");
  out.u16be(4);
  out.u16be(4);
  out.text("\x5d\xb8\xd8\x22");
  out.u16be(5);
  out.u16be(3);
  out.text("ech");
  resolver_.add_record("example.com", dns::RecordType::Https, data);
  allow_host("example.com");
  start_proxy();
  EXPECT_EQ(dig({"example.com", "TYPE65"}), "1 . alpn=\"h2\"\n");
}

TEST_F(Dns, AsksAgainOverTcpWhenAnAnswerIsCutOff) {
  for (int i = 1; i < 200; ++i) resolver_.add("many.example", "93.184.1." + std::to_string(i));
  resolver_.truncate = true;
  allow_host("many.example");
  start_proxy();
  // To dig, over UDP first, it is cut off as well.
  EXPECT_THAT(dig({"many.example"}), HasSubstr("93.184.1.199\n"));
  EXPECT_THAT(resolver_.asked, Contains("tcp many.example A"));
}

TEST_F(Dns, PassesOverResolversThatDoNotAnswer) {
  resolver_.add("example.com", "93.184.216.34");
  own_address("198.41.0.5");  // nobody listens there
  settings_.resolvers.insert(settings_.resolvers.begin(), {ip("198.41.0.5"), 53});
  allow_host("example.com");
  start_proxy();
  EXPECT_EQ(dig({"example.com"}), "93.184.216.34\n");
}

TEST_F(Dns, AsksAgainWhenADatagramIsLost) {
  resolver_.add("example.com", "93.184.216.34");
  resolver_.ignore = 1;
  allow_host("example.com");
  start_proxy();
  EXPECT_EQ(dig({"example.com"}), "93.184.216.34\n");
}

TEST_F(Dns, SaysWhenNobodyKnows) {
  resolver_.rcode = dns::Rcode::ServFail;
  allow_host("example.com");
  start_proxy();
  EXPECT_THAT(dig_all({"example.com"}), HasSubstr("status: SERVFAIL"));
  EXPECT_THAT(told(), ElementsAre("dns allow dns_failed A example.com"));
}

TEST_F(Dns, BelievesNoAnswerToAnotherQuestion) {
  resolver_.add("example.com", "93.184.216.34");
  resolver_.lie_first = true;
  allow_host("example.com");
  start_proxy();
  EXPECT_EQ(dig({"example.com"}), "93.184.216.34\n");
}

TEST_F(Dns, PutsUpWithResolversThatDoNotKeepCase) {
  resolver_.add("example-of-many-letters.com", "93.184.216.34");
  resolver_.change_case = true;
  allow_host("example-of-many-letters.com");
  start_proxy();
  // Never answered letter for letter, so never believed.
  EXPECT_THAT(dig_all({"+time=5", "example-of-many-letters.com"}), HasSubstr("status: SERVFAIL"));
}

TEST_F(Dns, RefusesMoreThanItsRate) {
  settings_.limits.queries_per_second = 3;
  start_proxy();
  const auto out = dig_all({"a.test", "b.test", "c.test", "d.test", "e.test", "f.test"});
  EXPECT_THAT(out, HasSubstr("rate_limited"));
  EXPECT_THAT(told(), Contains(HasSubstr("dns deny rate_limited A")));
}

// Names that are made up carry data to whoever runs the zone's servers.
TEST_F(Dns, LooksUpSoManyNamesOfAZone) {
  for (const char* host : {"a.zone.example", "b.zone.example", "www.zone.example"})
    resolver_.add(host, "93.184.216.34");
  allow_host("*.zone.example");
  allow_host("www.zone.example");
  settings_.limits.names_per_zone = 2;
  start_proxy();
  EXPECT_EQ(dig({"a.zone.example"}), "93.184.216.34\n");
  EXPECT_EQ(dig({"none.zone.example"}), "");
  EXPECT_THAT(dig_all({"b.zone.example"}), HasSubstr("rate_limited"));
  EXPECT_EQ(dig({"a.zone.example"}), "93.184.216.34\n");
  EXPECT_EQ(dig({"www.zone.example"}), "93.184.216.34\n");
  EXPECT_THAT(told(), Contains("dns deny rate_limited A b.zone.example"));
  EXPECT_EQ(events_of(EventKind::Dns).at(2).rule, "allow-host *.zone.example");
  EXPECT_THAT(resolver_.asked, Not(Contains(HasSubstr("b.zone.example"))));
}

TEST_F(Dns, AnswersMalformedQueriesWithAnError) {
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                           "s.connect(('100.127.255.1', 53))\n"
                           "s.settimeout(5)\n"
                           "s.send(b'x')\n"
                           "s.send(b'\\x12\\x34\\1\\0\\0\\2' + b'\\0' * 6)\n"
                           "print(s.recv(512).hex())"});
  EXPECT_EQ(exit.out, "123480810000000000000000\n") << exit.err;
}

TEST_F(Dns, FollowsAPolicyThatChanges) {
  resolver_.add("example.com", "93.184.216.34");
  start_proxy();
  EXPECT_EQ(dig({"example.com"}), "");
  allow_host("example.com");
  proxy_->set_policy(settings_.policy, Mode::Enforce);
  EXPECT_EQ(dig({"example.com"}), "93.184.216.34\n");
  EXPECT_EQ(proxy_->counters().pins, 2U);
  proxy_->set_policy({}, Mode::Enforce);
  EXPECT_EQ(dig({"example.com"}), "");
  EXPECT_EQ(proxy_->counters().pins, 0U);
}

TEST_F(Dns, LetsNamesThroughInAuditMode) {
  resolver_.add("example.com", "93.184.216.34");
  resolver_.add("private.example", "10.0.0.1");
  settings_.mode = Mode::Audit;
  start_proxy();
  EXPECT_EQ(dig({"example.com"}), "93.184.216.34\n");
  EXPECT_EQ(dig({"private.example"}), "");
  EXPECT_THAT(told(), Contains("dns allow policy_denied audited A example.com"));
  EXPECT_THAT(told(), Contains("dns deny private_range A private.example 10.0.0.1"));
}

}
}
