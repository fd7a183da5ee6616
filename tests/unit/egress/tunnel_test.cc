// Clients that are told of a proxy: CONNECT, at the gateway.
#include "proxy_rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Tunnels : public ExplicitProxy {};

TEST_F(Tunnels, RelaysATunnelUntouched) {
  serve_https("a.example", kA);
  allow_host("a.example");
  start_proxy();
  const auto exit = curl(
      {"--cacert", directory() + "/a.example.pem", "https://a.example/x", "-w", "%{http_connect}"});
  EXPECT_EQ(exit.out, "a.example a.example /x\n200") << exit.err;
  ASSERT_TRUE(told_of_the_end());
  EXPECT_THAT(told(), ElementsAre("tls allow allowed a.example 93.184.216.34 443",
                                  "end allow allowed a.example 93.184.216.34 443"));
}

TEST_F(Tunnels, LooksIntoATunnelWhereRoutesNeedIt) {
  serve_https("a.example", kA);
  allow_endpoint("GET https://a.example/v1/**");
  start_proxy();
  const std::string authority = file("authority.pem", proxy_->authority_pem());
  for (const char* version : {"--http1.1", "--http2"}) {
    const auto exit =
        curl({version, "--cacert", authority, "https://a.example/v1/a", "https://a.example/v2"});
    EXPECT_THAT(exit.out,
                AllOf(HasSubstr("a.example a.example /v1/a\n"), HasSubstr("policy_denied"),
                      HasSubstr("GET https://a.example:443/v2")))
        << exit.err;
  }
  EXPECT_THAT(told(), Contains("http deny policy_denied GET a.example 93.184.216.34 443"));
}

TEST_F(Tunnels, RefusesATunnelWithTheReasonAndOneRecord) {
  allow_host("a.example");
  start_proxy();
  const auto exit = curl({"https://evil.test/", "-v", "-w", "%{http_connect}"});
  EXPECT_EQ(exit.code, 56) << exit.err;
  EXPECT_EQ(exit.out, "403");
  const std::string out =
      say({"CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n"});
  EXPECT_THAT(out, AllOf(HasSubstr("HTTP/1.1 403"), HasSubstr("X-Mvm-Egress-Reason: policy_denied"),
                         HasSubstr(R"("host":"evil.test","allow":"--allow-host evil.test:443"})")));
  EXPECT_THAT(say({"CONNECT a.example:22 HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n"}),
              HasSubstr("--allow-host a.example:22"));
  EXPECT_THAT(told(), Contains("connect deny policy_denied evil.test 443"));
  EXPECT_THAT(told(), Contains("connect deny policy_denied a.example 22").Times(1));
  EXPECT_THAT(events_of(EventKind::End), IsEmpty());
  EXPECT_THAT(resolver_.asked, IsEmpty());
}

TEST_F(Tunnels, WantsTheServerNameThatTheTunnelIsFor) {
  Program& server = serve_https("b.zone.example", kA);
  resolver_.add("a.zone.example", kA);
  resolver_.add("b.zone.example", kA);
  allow_host("*.zone.example");
  start_proxy();
  // Both are admitted, and on one address; the tunnel is for one of them.
  const auto exit = guest({"openssl", "s_client", "-proxy", "100.127.255.1:3128", "-servername",
                           "b.zone.example", "-connect", "a.zone.example:443"});
  EXPECT_THAT(exit.err, HasSubstr("unrecognized name"));
  EXPECT_THAT(told(), ElementsAre("tls deny sni_mismatch a.zone.example 93.184.216.34 443"));
  EXPECT_THAT(guest({"openssl", "s_client", "-proxy", "100.127.255.1:3128", "-noservername",
                     "-connect", "a.zone.example:443"})
                  .err,
              HasSubstr("unrecognized name"));
  EXPECT_FALSE(server.ended());
  EXPECT_EQ(proxy_->counters().sent, 0U);
}

TEST_F(Tunnels, JudgesPlainHttpInATunnelByItsHost) {
  serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  const auto exit = curl({"-p", "http://a.example/x", "-H", "Host: a.example"});
  EXPECT_EQ(exit.out, "A a.example /x\n") << exit.err;
  EXPECT_THAT(curl({"-p", "http://a.example/x", "-H", "Host: b.example"}).out,
              HasSubstr("authority_mismatch"));
}

TEST_F(Tunnels, CarriesWhatTheServerSaysFirst) {
  serve_python(
      "import socket\n"
      "l = socket.create_server(('93.184.216.34', 22))\n"
      "while True:\n"
      "  c = l.accept()[0]\n"
      "  try: c.sendall(b'SSH-2.0-x\\n'); c.sendall(c.recv(99)[::-1])\n"
      "  except OSError: pass\n"
      "  c.close()",
      {ip(kA), 22});
  allow_host("a.example:22");
  start_proxy();
  // What the client sends behind the head, without waiting, is the tunnel's.
  EXPECT_EQ(say({"CONNECT a.example:22 HTTP/1.1\\r\\nHost: a.example:22\\r\\n\\r\\nabc"}),
            "HTTP/1.1 200 Connection established||SSH-2.0-x/cba\n");
  ASSERT_TRUE(told_of_the_end());
  EXPECT_THAT(told(), ElementsAre("connect allow allowed a.example 93.184.216.34 22",
                                  "end allow allowed a.example 93.184.216.34 22"));
}

// Whoever is told 200 has a server.
TEST_F(Tunnels, SaysThatItsServerIsNotThere) {
  allow_host("a.example:22");
  allow_host("a.example:443");
  allow_range("fd99::/16");
  start_proxy();
  for (const char* to : {"a.example:22", "a.example:443", "[fd99::1]:5432"}) {
    const std::string out =
        say({"CONNECT " + std::string(to) + " HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nabc"});
    EXPECT_THAT(out, AllOf(HasSubstr("HTTP/1.1 502"),
                           HasSubstr("X-Mvm-Egress-Reason: upstream_unreachable"),
                           Not(HasSubstr("HTTP/1.1 200"))))
        << to;
  }
  EXPECT_THAT(told(), ElementsAre("connect allow allowed a.example 93.184.216.34 22",
                                  "end allow upstream_unreachable a.example 93.184.216.34 22",
                                  "connect allow allowed a.example 93.184.216.34 443",
                                  "end allow upstream_unreachable a.example 93.184.216.34 443",
                                  "connect allow allowed fd99::1 5432",
                                  "end allow upstream_unreachable fd99::1 5432"));
  EXPECT_TRUE(eventually([&] { return proxy_->counters().flows_now == 0; }));
}

TEST_F(Tunnels, TakesNothingBehindARefusedTunnelForARequest) {
  Program& server = serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  const std::string out =
      say({"CONNECT evil.test:80 HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"
           "GET http://a.example/smuggled HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n"});
  EXPECT_THAT(out, AllOf(HasSubstr("HTTP/1.1 403"), Not(HasSubstr("HTTP/1.1 200"))));
  EXPECT_THAT(server.exit().out, Not(HasSubstr("smuggled")));
}

TEST_F(Tunnels, TakesATunnelOfHttp10AndAHeadInPieces) {
  serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  // As Python before 3.12 asks for one.
  const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.create_connection(('100.127.255.1', 3128)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for b in b'CONNECT a.example:80 HTTP/1.0\r\n\r\nGET /x HTTP/1.1\r\nHost: a.example\r\n\r\n': s.send(bytes([b]))
f = s.makefile('rb'); print(f.readline().strip(), f.readline(), f.readline().strip())
)"});
  EXPECT_EQ(exit.out, "b'HTTP/1.1 200 Connection established' b'\\r\\n' b'HTTP/1.1 200 OK'\n")
      << exit.err;
}

TEST_F(Tunnels, JudgesAnAddressByItselfOrByTheNameItWasGivenFor) {
  serve_as("A", kA, 80);
  serve_as("B", kB, 80);
  allow_range("93.184.216.35/32");
  allow_host("a.example");
  start_proxy();
  const auto connect = [&](const std::string& address, const std::string& host) {
    return say({"CONNECT " + address + ":80 HTTP/1.1\\r\\nHost: " + address +
                ":80\\r\\n\\r\\nGET / HTTP/1.0\\r\\nHost: " + host + "\\r\\n\\r\\n"});
  };
  EXPECT_THAT(connect(kB, kB), HasSubstr("B 93.184.216.35 /"));
  EXPECT_THAT(connect(kA, "a.example"), AllOf(HasSubstr("403"), HasSubstr("policy_denied")));
  guest({"getent", "ahostsv4", "a.example"});
  EXPECT_THAT(connect(kA, "a.example"), HasSubstr("A a.example /"));
  for (const char* shut : {"127.0.0.1", "169.254.169.254", "100.127.255.1", "[::1]",
                           "[::ffff:127.0.0.1]", "[64:ff9b::a9fe:a9fe]"})
    EXPECT_THAT(connect(shut, shut), HasSubstr("HTTP/1.1 403")) << shut;
}

TEST_F(Tunnels, RefusesAConnectThatIsNone) {
  allow_host("a.example");
  start_proxy();
  const std::string host = " HTTP/1.1\\r\\nHost: a.example\\r\\n";
  std::vector<std::string> bad;
  for (const char* target : {"a.example",
                             "a.example:",
                             "a.example:0",
                             "a.example:65536",
                             "a.example:99999999999",
                             "a.example:0443",
                             "a.example:+443",
                             "u@a.example:443",
                             "u:p@a.example:443",
                             "a.example:443/",
                             "http://a.example:443/",
                             "/",
                             "*",
                             "0x7f.1:443",
                             "127.1:443",
                             "2130706433:443",
                             "a.7:443",
                             "::1:443",
                             "[::1:443",
                             "[v1.x]:443",
                             ":443",
                             ".:443",
                             "a..example:443"})
    bad.push_back("CONNECT " + std::string(target) + host + "\\r\\n");
  const std::string head = "CONNECT a.example:443" + host;
  bad.push_back(head + "Content-Length: 3\\r\\n\\r\\nabc");
  bad.push_back(head + "Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n");
  bad.push_back("CONNECT a.example:443 HTTP/1.1\\r\\nHost: u@a.example\\r\\n\\r\\n");
  bad.push_back(head + "Host: a.example\\r\\n\\r\\n");
  bad.push_back("CONNECT a.example:443 HTTP/1.1\\r\\n\\r\\n");
  bad.push_back(head + "X : y\\r\\n\\r\\n");
  bad.push_back("CONNECT  a.example:443" + host + "\\r\\n");
  std::vector<std::string> statuses(bad.size(), "400");
  bad.push_back("CONNECT a.example:443 HTTP/2.0\\r\\n\\r\\n");
  statuses.emplace_back("505");
  bad.push_back(head + "X: " + std::string(33'000, 'x'));
  statuses.emplace_back("431");
  const std::string out = say(bad);
  const auto lines = split(out, '\n');
  ASSERT_EQ(lines.size(), bad.size() + 1) << out;
  for (size_t i = 0; i < bad.size(); ++i)
    EXPECT_EQ(lines[i].substr(0, 12), "HTTP/1.1 " + statuses[i]) << bad[i].substr(0, 200);
  EXPECT_THAT(events_of(EventKind::Connect), IsEmpty());
  EXPECT_THAT(told(), Contains("http deny protocol_unsupported 100.127.255.1 3128"));
  EXPECT_THAT(resolver_.asked, IsEmpty());
}

// As Node's agent does, on a connection that it has kept.
TEST_F(Tunnels, ComeBehindRequestsOfTheSameConnection) {
  serve_as("A", kA, 80);
  serve_as("B", kB, 80);
  allow_host("a.example");
  allow_host("b.example");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.create_connection(('100.127.255.1', 3128)); f = s.makefile('rb')
def answer():
  status, length = f.readline().split()[1].decode(), 0
  while (line := f.readline()) != b'\r\n':
    if line.lower().startswith(b'content-length'): length = int(line.split(b':')[1])
  print(status, f.read(length).decode().strip()[:12])
def ask(line, host): s.sendall(line + b' HTTP/1.1\r\nHost: ' + host + b'\r\n\r\n'); answer()
ask(b'GET http://a.example/1', b'a.example')
ask(b'CONNECT b.example:80', b'b.example')
ask(b'GET /2', b'b.example')
ask(b'CONNECT a.example:80', b'b.example')
)"});
  EXPECT_THAT(exit.out, HasSubstr("200 A a.example \n200 \n200 B b.example \n403 {\"error\":{\""))
      << exit.err;
  ASSERT_TRUE(eventually([&] { return proxy_->counters().flows_now == 0; }));
  EXPECT_THAT(told(),
              ElementsAre("http allow allowed GET a.example 93.184.216.34 80",
                          "end allow allowed 100.127.255.1 3128",
                          "http allow allowed GET b.example 93.184.216.35 80",
                          "http deny protocol_unsupported CONNECT b.example 93.184.216.35 80",
                          "end allow allowed b.example 93.184.216.35 80"));
}

// Node's clients put the proxy's own address into Host.
TEST_F(Tunnels, LeadWhereTheTargetSays) {
  serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  for (const char* host : {"100.127.255.1:3128", "b.example", "a.example:81"})
    EXPECT_THAT(say({"CONNECT a.example:80 HTTP/1.1\\r\\nHost: " + std::string(host) +
                     "\\r\\n\\r\\nGET / HTTP/1.0\\r\\nHost: a.example\\r\\n\\r\\n"}),
                HasSubstr("A a.example /"))
        << host;
  EXPECT_THAT(say({"CONNECT b.example:80 HTTP/1.1\\r\\nHost: a.example:80\\r\\n\\r\\n"}),
              HasSubstr("HTTP/1.1 403"));
}

TEST_F(Tunnels, EndsAClientThatGoesInTheMiddleOfItsHead) {
  start_proxy();
  guest({"python3", "-c",
         "import socket\n"
         "for head in (b'', b'CON', b'CONNECT ', b'CONNECT a.example:443 HTTP/1.1\\r\\n'):\n"
         "  s = socket.create_connection(('100.127.255.1', 3128)); s.sendall(head); s.close()"});
  EXPECT_TRUE(eventually([&] { return proxy_->counters().flows_now == 0; }));
  EXPECT_THAT(events_of(EventKind::Connect), IsEmpty());
}

TEST_F(Tunnels, OpensNoTunnelInsideAnother) {
  serve_https("a.example", kA);
  allow_endpoint("* https://a.example/**");
  allow_host("b.example");
  start_proxy();
  const std::string authority = file("authority.pem", proxy_->authority_pem());
  const auto exit = guest({"python3", "-c", R"(
import socket, ssl, sys
s = socket.create_connection(('100.127.255.1', 3128)); s.send(b'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n')
while not (got := s.recv(999)).endswith(b'\r\n\r\n'): pass
t = ssl.create_default_context(cafile=sys.argv[1]).wrap_socket(s, server_hostname='a.example')
t.send(b'CONNECT b.example:443 HTTP/1.1\r\nHost: b.example\r\n\r\n'); print(t.recv(12).decode())
)",
                           authority});
  EXPECT_EQ(exit.out, "HTTP/1.1 403\n") << exit.err;
}

TEST_F(Tunnels, AsksAPersonBeforeItAnswers) {
  serve_as("A", kA, 80);
  policy::Route route;
  route.id = "ask";
  route.host = policy::HostPattern::parse("a.example").value();
  route.ports = {22, 80};
  route.otherwise = policy::Outcome::Ask;
  settings_.policy.routes.push_back(route);
  start_proxy();
  const std::string head = " HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n";
  for (const bool yes : {false, true}) {
    const auto client = start_guest(
        {"python3", "-c", kSay,
         "CONNECT a.example:80" + head + "GET / HTTP/1.0\\r\\nHost: a.example\\r\\n\\r\\n"});
    ASSERT_TRUE(eventually([&] { return !proxy_->questions().empty(); }));
    EXPECT_EQ(client->exit().out, "");
    proxy_->answer(proxy_->questions().front().number, yes);
    // What comes through the tunnel is asked about request by request.
    ASSERT_TRUE(eventually([&] { return client->ended() || !proxy_->questions().empty(); }));
    if (yes) proxy_->answer(proxy_->questions().front().number, true);
    ASSERT_TRUE(eventually([&] { return client->ended(); }));
    EXPECT_THAT(client->exit().out, yes ? HasSubstr("A a.example /") : HasSubstr("HTTP/1.1 403"));
  }
}

}
}
