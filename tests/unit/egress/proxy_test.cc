// Clients that are told of a proxy: CONNECT and requests that name their server, at the gateway.
#include <gmock/gmock.h>

#include "mvm/base/text.h"
#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kA = "93.184.216.34";
constexpr const char* kB = "93.184.216.35";
constexpr const char* kB6 = "2606:2800:220:1::1";
constexpr const char* kProxy = "http://100.127.255.1:3128";

// Says which server it is, and what it was asked.
constexpr const char* kServer = R"(
import http.server, socket, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): print(self.requestline, sorted(k.lower() for k in self.headers), flush=True)
  def do_GET(self):
    text = '%s %s %s\n' % (sys.argv[4], self.headers.get('Host'), self.path)
    self.send_response(200); self.send_header('Content-Length', str(len(text))); self.end_headers()
    self.wfile.write(text.encode())
class S(http.server.ThreadingHTTPServer): address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = S((sys.argv[1], int(sys.argv[2])), H)
if sys.argv[3]:
  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
  s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

// Sends what it is told to the proxy in one piece, and prints what comes back, until it closes.
constexpr const char* kSay = R"(
import socket, sys
for words in sys.argv[1:]:
  s = socket.create_connection(('100.127.255.1', 3128)); got = b''
  try:
    s.sendall(words.encode('latin1').decode('unicode_escape').encode('latin1'))
    if not words.startswith('CONNECT'): s.shutdown(socket.SHUT_WR)
    while (part := s.recv(65536)): got += part
  except ConnectionResetError: got += b'RESET'
  print(got.decode('latin1').replace('\r\n', '|').replace('\n', '/'))
)";

class ExplicitProxy : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kA);
    own_address(kB);
    resolver_.add("a.example", kA);
    resolver_.add("b.example", kB);
    settings_.http_proxy = {{ip("100.127.255.1"), 3128}, {ip("fd6d:766d::1"), 3128}};
  }
  Program& serve_as(const std::string& word, const std::string& address, uint16_t port,
                    const std::string& certificate_path = "") {
    return serve(
        {"python3", "-u", "-c", kServer, address, std::to_string(port), certificate_path, word},
        {ip(address), port});
  }
  Program& serve_https(const std::string& host, const std::string& address) {
    const std::string path = certificate(host);
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    return serve_as(host, address, 443, path);
  }
  Program::Exit curl(std::vector<std::string> words) {
    std::vector<std::string> argv{"curl", "-sS", "-x", kProxy};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv);
  }
  // One line for each of `words`.
  std::string say(std::vector<std::string> words) {
    std::vector<std::string> argv{"python3", "-c", kSay};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto exit = guest(argv);
    return exit.out + exit.err;
  }
  bool told_of_the_end() {
    return eventually([&] { return !events_of(EventKind::End).empty(); });
  }
};

// ---- requests that name their server

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
           // Behind a request, where what follows is its connection's.
           "OPTIONS http://a.example/" + host + "CONNECT a.example:80" + host,
           "GET http://a.example/ HTTP/1.1\\r\\nHost: b.example\\r\\n\\r\\n",
           "GET http://a.example/ HTTP/1.1\\r\\n\\r\\n", "GET http://u@a.example/" + host,
           "GET http://a.example:0/" + host,
           "GET http://0x7f.1/ HTTP/1.1\\r\\nHost: 0x7f.1\\r\\n\\r\\n",
           "connect a.example:443" + host, "CON", "PRI * HTTP/2.0\\r\\n\\r\\n"});
  std::vector<std::string> statuses;
  for (const std::string_view line : split(out, '\n'))
    statuses.emplace_back(line.starts_with("HTTP/1.1 ") ? line.substr(9, 3) : line);
  EXPECT_THAT(statuses, ElementsAre("403", "403", "403", "501", "400", "400", "400", "400", "400",
                                    "400", "RESET", "505", ""))
      << out;
  EXPECT_THAT(server.exit().out, Not(HasSubstr("GET")));
}

// ---- CONNECT

TEST_F(ExplicitProxy, RelaysATunnelUntouched) {
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

TEST_F(ExplicitProxy, LooksIntoATunnelWhereRoutesNeedIt) {
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

TEST_F(ExplicitProxy, RefusesATunnelWithTheReasonAndOneRecord) {
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

TEST_F(ExplicitProxy, WantsTheServerNameThatTheTunnelIsFor) {
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

TEST_F(ExplicitProxy, JudgesPlainHttpInATunnelByItsHost) {
  serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  const auto exit = curl({"-p", "http://a.example/x", "-H", "Host: a.example"});
  EXPECT_EQ(exit.out, "A a.example /x\n") << exit.err;
  EXPECT_THAT(curl({"-p", "http://a.example/x", "-H", "Host: b.example"}).out,
              HasSubstr("authority_mismatch"));
}

TEST_F(ExplicitProxy, CarriesWhatTheServerSaysFirst) {
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

TEST_F(ExplicitProxy, TakesNothingBehindARefusedTunnelForARequest) {
  Program& server = serve_as("A", kA, 80);
  allow_host("a.example");
  start_proxy();
  const std::string out =
      say({"CONNECT evil.test:80 HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"
           "GET http://a.example/smuggled HTTP/1.1\\r\\nHost: a.example\\r\\n\\r\\n"});
  EXPECT_THAT(out, AllOf(HasSubstr("HTTP/1.1 403"), Not(HasSubstr("HTTP/1.1 200"))));
  EXPECT_THAT(server.exit().out, Not(HasSubstr("smuggled")));
}

TEST_F(ExplicitProxy, TakesATunnelOfHttp10AndAHeadInPieces) {
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

TEST_F(ExplicitProxy, JudgesAnAddressByItselfOrByTheNameItWasGivenFor) {
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

TEST_F(ExplicitProxy, RefusesAConnectThatIsNone) {
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
  bad.push_back("CONNECT a.example:443 HTTP/1.1\\r\\nHost: b.example:443\\r\\n\\r\\n");
  bad.push_back("CONNECT a.example:443 HTTP/1.1\\r\\nHost: a.example:444\\r\\n\\r\\n");
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

TEST_F(ExplicitProxy, EndsAClientThatGoesInTheMiddleOfItsHead) {
  start_proxy();
  guest({"python3", "-c",
         "import socket\n"
         "for head in (b'', b'CON', b'CONNECT ', b'CONNECT a.example:443 HTTP/1.1\\r\\n'):\n"
         "  s = socket.create_connection(('100.127.255.1', 3128)); s.sendall(head); s.close()"});
  EXPECT_TRUE(eventually([&] { return proxy_->counters().flows_now == 0; }));
  EXPECT_THAT(events_of(EventKind::Connect), IsEmpty());
}

TEST_F(ExplicitProxy, OpensNoTunnelInsideAnother) {
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

TEST_F(ExplicitProxy, AsksAPersonBeforeItAnswers) {
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
