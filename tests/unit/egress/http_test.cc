// Requests of real clients, looked into.
#include <cstdlib>

#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";

// Answers by path: /sum tells the body's hash, /big sends 8 MiB in chunks, /sse one event at once
// and one at each request of /another, and so on.
constexpr const char* kServer = R"(
import http.server, hashlib, ssl, sys, threading, base64, socket
asked = threading.Semaphore()
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): print(self.requestline, flush=True)
  def body(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      out = b''
      while (n := int(self.rfile.readline().split(b';')[0], 16)):
        out += self.rfile.read(n); self.rfile.readline()
      self.rfile.readline(); return out
    return self.rfile.read(int(self.headers.get('Content-Length', 0)))
  def say(self, text, **headers):
    self.send_response(200)
    for k, v in headers.items(): self.send_header(k.replace('_', '-'), v)
    self.send_header('Content-Length', str(len(text))); self.end_headers()
    if self.command != 'HEAD': self.wfile.write(text.encode())
  def do_GET(self):
    if self.path == '/big':
      self.send_response(200); self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
      for i in range(128): self.wfile.write(b'10000\r\n' + bytes([i]) * 65536 + b'\r\n')
      self.wfile.write(b'0\r\n\r\n')
    elif self.path == '/cut':
      self.send_response(200); self.send_header('Content-Length', '100'); self.end_headers()
      self.wfile.write(b'half'); self.wfile.flush()
      self.close_connection = True
    elif self.path == '/once':
      self.say('once'); self.close_connection = True
    elif self.path == '/sse':
      self.send_response(200); self.send_header('Content-Type', 'text/event-stream'); self.end_headers()
      for i in range(3): asked.acquire(); self.wfile.write(b'data: %d\n\n' % i); self.wfile.flush()
      self.close_connection = True
    elif self.path == '/another': asked.release(); self.say('')
    elif self.headers.get('Upgrade') == 'websocket':
      key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
      self.send_response(101); self.send_header('Upgrade', 'websocket')
      self.send_header('Connection', 'Upgrade')
      self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
      self.end_headers(); self.wfile.flush()
      while (part := self.rfile.read1(65536)): self.wfile.write(part[::-1]); self.wfile.flush()
      self.close_connection = True
    else: self.say('hello ' + self.path)
  do_HEAD = do_GET
  def do_POST(self): self.say(hashlib.sha256(self.body()).hexdigest())
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
if len(sys.argv) > 3:
  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
  s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class Http : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
  }
  Program& serve_http() {
    return serve({"python3", "-u", "-c", kServer, kPublic, "80"}, {ip(kPublic), 80});
  }
  // The proxy trusts it; the guest does not.
  Program& serve_https(const std::string& host = "api.example") {
    const std::string path = certificate(host);
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    return serve({"python3", "-u", "-c", kServer, kPublic, "443", path}, {ip(kPublic), 443});
  }
  void start_proxy() {
    EgressTest::start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }
  Program::Exit curl(std::vector<std::string> words) {
    std::vector<std::string> argv{"curl", "-sS", "--cacert", authority_};
    argv.insert(argv.end(), words.begin(), words.end());
    return guest(argv);
  }
  std::string authority_;
};

TEST_F(Http, JudgesEachRequestOfAConnection) {
  Program& server = serve_http();
  allow_endpoint("GET http://api.example/v1/**");
  start_proxy();
  const auto exit = curl({"http://api.example/v1/a", "http://api.example/v1/b?q=1",
                          "http://api.example/admin", "-w", "%{http_code} %{num_connects}\n"});
  EXPECT_THAT(exit.out, HasSubstr("hello /v1/a200 1\nhello /v1/b?q=1200 0\n"));
  EXPECT_THAT(exit.out, AllOf(HasSubstr("\"reason\":"), HasSubstr("policy_denied"),
                              HasSubstr("api.example"), HasSubstr("403 0")));
  EXPECT_THAT(exit.out, HasSubstr("--allow-endpoint 'GET http://api.example:80/admin'"));
  EXPECT_THAT(server.exit().out, Not(HasSubstr("admin")));
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_THAT(told(),
              ElementsAre("dns allow allowed A api.example", "dns allow allowed AAAA api.example",
                          "http allow allowed GET api.example 93.184.216.34 80",
                          "http allow allowed GET api.example 93.184.216.34 80",
                          "http deny policy_denied GET api.example 93.184.216.34 80",
                          "end allow allowed api.example 93.184.216.34 80"));
  EXPECT_EQ(events_of(EventKind::Http).at(1).path, "/v1/b");
}

TEST_F(Http, LooksIntoTlsWhereRoutesNeedIt) {
  serve_https();
  allow_endpoint("GET https://api.example/v1/**");
  start_proxy();
  const auto exit = curl({"-v", "https://api.example/v1/a", "https://api.example/v2"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("hello /v1/a"), HasSubstr("policy_denied"))) << exit.err;
  EXPECT_THAT(exit.err, HasSubstr("subject: "));
  EXPECT_THAT(told(), Contains("http allow allowed GET api.example 93.184.216.34 443"));
  EXPECT_THAT(told(), Contains("http deny policy_denied GET api.example 93.184.216.34 443"));
  // A client that does not trust the sandbox's authority says so, and is told of.
  EXPECT_EQ(guest({"curl", "-s", "https://api.example/v1/a"}).code, 60);
  EXPECT_TRUE(eventually([&] {
    const auto ends = events_of(EventKind::End);
    return !ends.empty() && ends.back().detail.find("unknown_ca") != std::string::npos;
  }));
}

TEST_F(Http, RefusesAnotherAuthorityThanTheConnections) {
  Program& server = serve_https();
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const auto exit = curl({"-H", "Host: evil.test", "https://api.example/"});
  EXPECT_THAT(exit.out, HasSubstr("authority_mismatch")) << exit.err;
  EXPECT_THAT(curl({"-H", "Host: api.example:8443", "https://api.example/"}).out,
              HasSubstr("authority_mismatch"));
  EXPECT_THAT(server.exit().out, IsEmpty());
}

TEST_F(Http, RefusesPathsThatServersReadDifferently) {
  Program& server = serve_http();
  allow_endpoint("GET http://api.example/v1/**");
  start_proxy();
  for (const char* path : {"/v1/../admin", "/v1/%2e%2e/admin", "/v1//admin", "/v1/a%2fb",
                           "/v1/..;/admin", "/v1/%252e%252e/admin"})
    EXPECT_THAT(curl({"--path-as-is", std::string("http://api.example") + path}).out,
                HasSubstr("ambiguous_path"))
        << path;
  EXPECT_THAT(server.exit().out, IsEmpty());
}

// apt asks so for repositories without directories. The server is asked for what was judged.
TEST_F(Http, TakesOutSegmentsThatSayHere) {
  Program& server = serve_http();
  allow_endpoint("GET http://api.example/v1/**");
  start_proxy();
  const auto exit = curl({"--path-as-is", "http://api.example/v1/./a?x=/./", "-w", "\n",
                          "http://api.example/./admin", "http://api.example/v1/%2e/b"});
  EXPECT_THAT(exit.out,
              AllOf(HasSubstr("hello /v1/a?x=/./\n"), HasSubstr("GET http://api.example:80/admin"),
                    HasSubstr("ambiguous_path")));
  ASSERT_TRUE(eventually([&] { return !server.exit().out.empty(); }));
  EXPECT_EQ(server.exit().out, "GET /v1/a?x=/./ HTTP/1.1\n");
}

TEST_F(Http, CarriesBodiesOfAnySize) {
  serve_https();
  allow_endpoint("POST https://api.example/sum");
  start_proxy();
  const auto exit =
      guest({"sh", "-c",
             "cd " + directory() +
                 "\n"
                 "for n in 0 1 65535 65536 138240 1048576 9000000; do\n"
                 "  head -c $n /dev/urandom > body\n"
                 "  want=$(sha256sum < body | cut -d' ' -f1)\n"
                 "  for how in 'Expect:' 'Transfer-Encoding: chunked' 'Expect: 100-continue'; do\n"
                 "    got=$(curl -sS --cacert authority.pem -H \"$how\" --data-binary "
                 "@body https://api.example/sum)\n"
                 "    test \"$got\" = \"$want\" || echo $n $how: $got\n"
                 "  done\n"
                 "done"});
  EXPECT_EQ(exit.out + exit.err, "");
}

TEST_F(Http, AnswersPipelinedRequestsInTurn) {
  serve_http();
  allow_endpoint("GET http://api.example/v1/**");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.create_connection(('api.example', 80)); got = b''
s.sendall(b''.join(b'GET /v1/%d HTTP/1.1\r\nHost: api.example\r\n\r\n' % i for i in range(60)) +
          b'GET /admin HTTP/1.1\r\nHost: api.example\r\n\r\nGET /v1/late HTTP/1.1\r\nHost: api.example\r\n\r\n')
while (part := s.recv(65536)): got += part
print(all(b'hello /v1/%d' % i in got for i in range(60)), got.count(b' 200 '), got.count(b' 403 '), b'late' in got)
)"});
  EXPECT_EQ(exit.out, "True 60 1 False\n") << exit.err;
}

TEST_F(Http, StreamsLongAnswers) {
  serve_https();
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const auto exit = guest(
      {"sh", "-c",
       "curl -sS --limit-rate 40M --cacert " + authority_ + " https://api.example/big | wc -c"});
  EXPECT_EQ(exit.out, "8388608\n") << exit.err;
}

TEST_F(Http, PassesEventsOnAsTheyCome) {
  serve_http();
  allow_endpoint("GET http://api.example/**");
  start_proxy();
  const auto client = start_guest({"curl", "-sSN", "http://api.example/sse"});
  std::string want;
  for (int event = 0; event < 3; ++event) {
    if (event > 0) {
      EXPECT_EQ(curl({"http://api.example/another"}).err, "");
    }
    want += "data: " + std::to_string(event) + "\n\n";
    ASSERT_TRUE(eventually([&] { return client->exit().out == want; })) << client->exit().out;
  }
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().code, 0) << client->exit().err;
}

TEST_F(Http, CutsOffWhatTheServerCutOff) {
  serve_http();
  allow_endpoint("GET http://api.example/**");
  start_proxy();
  const auto exit = curl({"http://api.example/cut"});
  EXPECT_NE(exit.code, 0);
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_EQ(events_of(EventKind::End).at(0).reason, Reason::UpstreamUnreachable);
}

TEST_F(Http, ConnectsAgainWhenTheServerHasClosed) {
  serve_http();
  allow_endpoint("* http://api.example/**");
  start_proxy();
  const auto exit =
      curl({"http://api.example/once", "http://api.example/x", "-w", " %{num_connects}\n"});
  EXPECT_EQ(exit.out, "once 1\nhello /x 0\n") << exit.err;
  EXPECT_EQ(curl({"-I", "-o", "/dev/null", "-w", "%{http_code}", "http://api.example/"}).out,
            "200");
}

TEST_F(Http, SaysWhatIsWrongWithTheServer) {
  serve_https("other.example");  // not the name that is asked for
  resolver_.add("down.example", "93.184.216.99");
  own_address("93.184.216.99");
  allow_endpoint("GET https://api.example/**");
  allow_endpoint("GET https://down.example/**");
  start_proxy();
  const auto exit = curl({"https://api.example/", "-w", "%{http_code}"});
  EXPECT_THAT(exit.out,
              AllOf(HasSubstr("502"), HasSubstr("upstream_tls"), HasSubstr("api.example: ")))
      << exit.err;
  EXPECT_THAT(curl({"https://down.example/", "-w", "%{http_code}"}).out,
              AllOf(HasSubstr("502"), HasSubstr("upstream_unreachable")));
  ASSERT_TRUE(eventually([&] { return events_of(EventKind::End).size() == 2; }));
  EXPECT_EQ(events_of(EventKind::End).at(0).reason, Reason::UpstreamTls);
  EXPECT_EQ(events_of(EventKind::End).at(1).reason, Reason::UpstreamUnreachable);
}

// A certificate of CN `name`, its key beside it.
std::string openssl_makes(const std::string& path, const std::string& name,
                          const std::string& more) {
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
      name + " -keyout " + path + ".key -out " + path + " " + more + " 2>/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT: the test's own words
  return path;
}

TEST_F(Http, BelievesAServerByTheAuthoritiesOfItsHost) {
  const std::string company = openssl_makes(directory() + "/company.pem", "company", "");
  const std::string server = openssl_makes(
      directory() + "/server.pem", "server",
      "-addext subjectAltName=DNS:api.example,DNS:other.example -addext basicConstraints=CA:FALSE "
      "-CA " +
          company + " -CAkey " + company + ".key");
  serve({"python3", "-u", "-c", kServer, kPublic, "443", server}, {ip(kPublic), 443});
  // The host's own authorities know nothing of this server.
  const std::string other = certificate("unknown.test");
  settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(other, 1 << 20)), other);
  resolver_.add("other.example", kPublic);
  allow_endpoint("GET https://api.example/**");
  allow_endpoint("GET https://other.example/**");
  settings_.trust_by_host = {
      {policy::HostPattern::parse("api.example"),
       crypto::TrustStore::with(settings_.trust, as_text(sys::read_file(company, 1 << 20)),
                                company)}};
  start_proxy();
  EXPECT_EQ(curl({"https://api.example/x"}).out, "hello /x");
  EXPECT_EQ(curl({"--http1.1", "https://api.example/y"}).out, "hello /y");
  EXPECT_THAT(curl({"https://other.example/x", "-w", "%{http_code}"}).out,
              AllOf(HasSubstr("502"), HasSubstr("upstream_tls")));
}

TEST_F(Http, RefusesWhatTwoReadersReadDifferently) {
  Program& server = serve_http();
  allow_endpoint("* http://api.example/**");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
head = b'POST /sum HTTP/1.1\r\nHost: api.example\r\n'
for bad in (b'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n', b'Content-Length: 4\r\nContent-Length: 5\r\n',
            b'Transfer-Encoding: chunked, x\r\n', b'Content-Length : 4\r\n', b'X: a\r\n b\r\n', b'X: a\nY: b\r\n'):
  s = socket.create_connection(('api.example', 80)); s.send(head + bad + b'\r\n0\r\n\r\n')
  print(s.recv(12).decode())
)"});
  EXPECT_EQ(exit.out,
            "HTTP/1.1 400\nHTTP/1.1 400\nHTTP/1.1 501\nHTTP/1.1 400\nHTTP/1.1 400\nHTTP/1.1 400\n")
      << exit.err;
  EXPECT_THAT(server.exit().out, IsEmpty());
  EXPECT_THAT(told(), Contains("http deny protocol_unsupported api.example 93.184.216.34 80"));
}

TEST_F(Http, JudgesAWebSocketHandshakeAndPassesItsFrames) {
  serve_http();
  allow_endpoint("GET http://api.example/ws");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
def ask(path):
  s = socket.create_connection(('api.example', 80)); f = s.makefile('rb')
  s.send(b'GET ' + path + b' HTTP/1.1\r\nHost: api.example\r\nUpgrade: websocket\r\n'
         b'Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n'
         b'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
  print(f.readline().decode().strip()); return s, f
s, f = ask(b'/ws')
while f.readline().strip(): pass
s.send(b'\x81\x03abc'); print(f.read(5)); s.close()
ask(b'/other')
)"});
  EXPECT_EQ(exit.out,
            "HTTP/1.1 101 Switching Protocols\nb'cba\\x03\\x81'\nHTTP/1.1 403 Forbidden\n")
      << exit.err;
}

TEST_F(Http, TakesProxyStyleRequestsAndNoTunnels) {
  serve_http();
  allow_endpoint("GET http://api.example/v1");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
for line in (b'GET http://api.example/v1 HTTP/1.1', b'GET http://evil.test/v1 HTTP/1.1', b'CONNECT api.example:443 HTTP/1.1'):
  s = socket.create_connection(('api.example', 80))
  s.send(line + b'\r\nHost: ' + (b'evil.test' if b'evil' in line else b'api.example:443' if b'CONN' in line else b'api.example') + b'\r\n\r\n')
  print(s.recv(12).decode())
)"});
  EXPECT_EQ(exit.out, "HTTP/1.1 200\nHTTP/1.1 403\nHTTP/1.1 403\n") << exit.err;
}

TEST_F(Http, PassesOtherHostsUntouched) {
  serve_https();
  allow_host("api.example");
  allow_endpoint("GET https://inspected.example/**");
  start_proxy();
  // The server's own certificate, not the authority's.
  const auto exit =
      guest({"curl", "-sS", "--cacert", directory() + "/api.example.pem", "https://api.example/x"});
  EXPECT_EQ(exit.out, "hello /x") << exit.err;
}

TEST_F(Http, LetsThroughAndTellsInAuditMode) {
  serve_http();
  allow_endpoint("GET http://api.example/v1");
  settings_.mode = Mode::Audit;
  start_proxy();
  EXPECT_EQ(curl({"http://api.example/other"}).out, "hello /other");
  EXPECT_THAT(told(),
              Contains("http allow policy_denied audited GET api.example 93.184.216.34 80"));
}

}
}
