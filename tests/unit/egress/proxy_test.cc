// Clients that are told of a proxy: requests that name their server, at the gateway.
#include "proxy_rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(ExplicitProxy, CarriesRequestsToTheServersThatTheyName) {
  serve_as("A", kA, 80);
  Program& other = serve_as("B", kB, 8080);
  allow_endpoint("GET http://a.example/v1/**");
  allow_host("b.example:8080");
  start_proxy();
  const auto exit =
      curl({"http://a.example/v1/x?q=1", "http://a.example/v1/y", "http://b.example:8080/z",
            "http://a.example/v1/again", "-w", "%{num_connects}\n"});
  EXPECT_EQ(exit.out,
            "A a.example /v1/x?q=1\n1\nA a.example /v1/y\n0\nB b.example:8080 /z\n0\n"
            "A a.example /v1/again\n0\n")
      << exit.err;
  ASSERT_TRUE(told_of_the_end());
  EXPECT_THAT(told(), ElementsAre("http allow allowed GET a.example 93.184.216.34 80",
                                  "http allow allowed GET a.example 93.184.216.34 80",
                                  "http allow allowed GET b.example 93.184.216.35 8080",
                                  "http allow allowed GET a.example 93.184.216.34 80",
                                  "end allow allowed 100.127.255.1 3128"));
  // What is for the proxy stays here.
  EXPECT_THAT(other.exit().out, AllOf(HasSubstr("'host'"), Not(HasSubstr("proxy"))));
}

TEST_F(ExplicitProxy, RefusesARequestAsOneThatNeededNoProxy) {
  allow_endpoint("GET http://a.example/v1/**");
  start_proxy();
  const auto exit = curl({"http://a.example/v2", "http://evil.test/", "http://93.184.216.35/", "-w",
                          "%{http_code}\n"});
  EXPECT_THAT(exit.out, HasSubstr("--allow-endpoint 'GET http://a.example:80/v2'"));
  EXPECT_THAT(exit.out, HasSubstr("--allow-endpoint 'GET http://evil.test:80/'"));
  EXPECT_THAT(exit.out, HasSubstr("--allow-cidr 93.184.216.35:80"));
  EXPECT_THAT(told(), ElementsAre("http deny policy_denied GET a.example 80",
                                  "http deny policy_denied GET evil.test 80",
                                  "http deny policy_denied GET 93.184.216.35 80"));
  EXPECT_THAT(resolver_.asked, IsEmpty());
}

TEST_F(ExplicitProxy, JudgesTheAddressThatANameLeadsTo) {
  resolver_.add("inside.zone.example", "10.1.2.3");
  resolver_.add("metadata.zone.example", "169.254.169.254");
  allow_host("*.zone.example");
  start_proxy();
  EXPECT_THAT(curl({"http://inside.zone.example/"}).out,
              AllOf(HasSubstr("private_range"), HasSubstr("--allow-cidr 10.1.2.3:80")));
  EXPECT_THAT(say({"CONNECT metadata.zone.example:443 HTTP/1.1\\r\\nHost: "
                   "metadata.zone.example\\r\\n\\r\\n"}),
              AllOf(HasSubstr("HTTP/1.1 403"), HasSubstr("cloud_metadata")));
  EXPECT_THAT(told(),
              ElementsAre("http deny private_range GET inside.zone.example 10.1.2.3 80",
                          "connect deny cloud_metadata metadata.zone.example 169.254.169.254 443"));
}

TEST_F(ExplicitProxy, SaysThatANameLeadsNowhere) {
  allow_host("*.zone.example");
  start_proxy();
  EXPECT_THAT(curl({"http://none.zone.example/", "-w", "%{http_code}"}).out,
              AllOf(HasSubstr("502"), HasSubstr("dns_failed"), HasSubstr("no such name")));
  EXPECT_THAT(
      say({"CONNECT none.zone.example:443 HTTP/1.1\\r\\nHost: none.zone.example\\r\\n\\r\\n"}),
      AllOf(HasSubstr("HTTP/1.1 502"), HasSubstr("none.zone.example: there is no such name")));
  EXPECT_THAT(told(), ElementsAre("http allow dns_failed GET none.zone.example 80",
                                  "connect allow dns_failed none.zone.example 443"));
}

TEST_F(ExplicitProxy, TakesAServerWithoutIPv4AndClientsWithIPv6) {
  own_address(kB6);
  serve_as("six", kB6, 80);
  resolver_.add("six.example", kB6);
  allow_host("six.example");
  start_proxy();
  const auto exit =
      guest({"curl", "-sS", "-x", "http://[fd6d:766d::1]:3128", "http://six.example/"});
  EXPECT_EQ(exit.out, "six six.example /\n") << exit.err;
}

TEST_F(ExplicitProxy, GivesAServerTheHostThatHttp10LeavesOut) {
  serve_as("A", kA, 8080);
  allow_host("a.example:8080");
  start_proxy();
  EXPECT_THAT(say({"GET http://a.example:8080/x HTTP/1.0\\r\\n\\r\\n"}),
              HasSubstr("A a.example:8080 /x"));
}

TEST_F(ExplicitProxy, RefusesWhatIsNoRequestToAProxy) {
  Program& server = serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  const std::string host = " HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n";
  const std::string out =
      say({"GET /" + host, "GET https://a.example/" + host, "OPTIONS *" + host,
           // Behind a request, with bytes that may be the tunnel's.
           "OPTIONS http://a.example/" + host + "CONNECT a.example:80" + host + "x",
           "GET http://a.example/ HTTP/1.1\\r\\nHost: b.example\\r\\n\\r\\n",
           "GET http://a.example/ HTTP/1.1\\r\\n\\r\\n", "GET http://u@a.example/" + host,
           "GET http://a.example:0/" + host,
           "GET http://0x7f.1/ HTTP/1.1\\r\\nHost: 0x7f.1\\r\\n\\r\\n",
           "connect a.example:443" + host, "CON", "PRI * HTTP/2.0\\r\\n\\r\\n"});
  std::vector<std::string> statuses;
  for (const std::string_view line : split(out, '\n'))
    statuses.emplace_back(line.starts_with("HTTP/1.1 ") ? line.substr(9, 3) : line);
  EXPECT_THAT(statuses, ElementsAre("403", "403", "403", "501", "400", "400", "400", "400", "400",
                                    "400", "RESET", HasSubstr("carries HTTP/2 over TLS"), ""))
      << out;
  EXPECT_THAT(server.exit().out, Not(HasSubstr("GET")));
}

TEST_F(ExplicitProxy, LetsThroughAndTellsInAuditMode) {
  serve_as("A", kA, 80);
  settings_.mode = Mode::Audit;
  start_proxy();
  EXPECT_EQ(curl({"http://a.example/x"}).out, "A a.example /x\n");
  EXPECT_EQ(curl({"-p", "http://a.example/y"}).out, "A a.example /y\n");
  EXPECT_THAT(told(), Contains("http allow policy_denied audited GET a.example 93.184.216.34 80"));
  EXPECT_THAT(told(), Contains("connect allow policy_denied audited a.example 93.184.216.34 80"));
}

// Names are looked up within the limit of queries, whoever names them.
TEST_F(ExplicitProxy, LooksUpNoMoreNamesThanQueriesMayAsk) {
  serve_as("A", kA, 80);
  for (int i = 0; i < 4; ++i) resolver_.add("n" + std::to_string(i) + ".zone.example", kA);
  allow_host("*.zone.example");
  settings_.limits.queries_per_second = 2;
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.create_connection(('100.127.255.1', 3128))
s.sendall(b''.join(b'GET http://n%d.zone.example/ HTTP/1.1\r\nHost: n%d.zone.example\r\n\r\n' % (i % 4, i % 4) for i in range(40)))
got = b''
while (part := s.recv(65536)): got += part
print(b'rate_limited' in got)
)"});
  EXPECT_EQ(exit.out, "True\n") << exit.err;
}

TEST_F(ExplicitProxy, LooksUpSoManyNamesOfAZone) {
  for (const char* host : {"a.zone.example", "b.zone.example"}) resolver_.add(host, kA);
  serve_as("A", kA, 80);
  allow_host("*.zone.example");
  settings_.limits.names_per_zone = 1;
  start_proxy();
  EXPECT_EQ(curl({"http://a.zone.example/x"}).out, "A a.zone.example /x\n");
  EXPECT_THAT(curl({"http://b.zone.example/x"}).out, HasSubstr("rate_limited"));
  EXPECT_THAT(say({"CONNECT b.zone.example:443 HTTP/1.1\\r\\nHost: b.zone.example\\r\\n\\r\\n"}),
              HasSubstr("rate_limited"));
  EXPECT_THAT(resolver_.asked, Not(Contains(HasSubstr("b.zone.example"))));
}

TEST_F(ExplicitProxy, IsNotThereWhenItIsSwitchedOff) {
  settings_.http_proxy.clear();
  allow_host("a.example");
  start_proxy();
  EXPECT_EQ(curl({"http://a.example/"}).code, 7);
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::Connect).empty(); }));
  EXPECT_THAT(told(), Contains("connect deny shared_address_space 100.127.255.1 3128"));
}

// Other ports of the gateway stay shut, and the door stays open when the rules change.
TEST_F(ExplicitProxy, IsAtItsPortAlone) {
  serve_as("A", kA, 80);
  start_proxy();
  EXPECT_EQ(guest({"curl", "-sS", "-x", "http://100.127.255.1:3129", "http://a.example/"}).code, 7);
  EXPECT_EQ(guest({"curl", "-sS", "-x", "http://93.184.216.34:3128", "http://a.example/"}).code, 7);
  policy::Policy changed;
  changed.hosts.push_back(policy::parse_host_rule("a.example").value());
  proxy_->set_policy(changed, Mode::Enforce);
  proxy_->reset();
  EXPECT_EQ(curl({"http://a.example/x"}).out, "A a.example /x\n");
}

}
}
