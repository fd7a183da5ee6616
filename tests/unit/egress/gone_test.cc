// Clients that go away before they have their answer: the server is told as it would be without
// us, so it may stop working on it, and no person is asked any more.
#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using policy::Outcome;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPublic = "93.184.216.34";

// Tells of each request, and of the client's end. /begin says half an answer first; at its end the
// client of /late gets its answer.
constexpr const char* kServer = R"(
import socket, ssl, sys, threading
def one(c):
  try:
    if len(sys.argv) > 2: c = context.wrap_socket(c, server_side=True)
    f = c.makefile('rb')
    while (line := f.readline()):
      path = line.split()[1]; length = 0
      while (line := f.readline().strip()):
        if line.lower().startswith(b'content-length:'): length = int(line[15:])
      f.read(length); print('asked', path.decode(), flush=True)
      if path == b'/v1/fast': c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi')
      if path == b'/v1/begin': c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
    print('gone', path.decode(), flush=True)
    if path == b'/v1/late': c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate')
  except OSError as e: print('gone', type(e).__name__, flush=True)
  c.close()
if len(sys.argv) > 2:
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(sys.argv[2], sys.argv[2] + '.key')
l = socket.create_server(('93.184.216.34', int(sys.argv[1])), backlog=8)
while True: threading.Thread(target=one, args=(l.accept()[0],)).start()
)";

class Gone : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
  }
  Program& serve_plain() {
    return serve({"python3", "-u", "-c", kServer, "80"}, {ip(kPublic), 80});
  }
  Program& serve_tls() {
    const std::string path = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    return serve({"python3", "-u", "-c", kServer, "443", path}, {ip(kPublic), 443});
  }
  // Rules that leave a path, or every connection to a port, to a person.
  void ask_about(std::vector<uint16_t> ports, std::vector<policy::RouteRule> rules) {
    settings_.policy.routes.push_back({"ask", policy::HostPattern::parse("api.example").value(),
                                       std::move(ports), std::move(rules), Outcome::Ask});
  }
  std::unique_ptr<Program> curl(std::vector<std::string> words) {
    const std::string authority = file("authority.pem", proxy_->authority_pem());
    std::vector<std::string> argv{"curl", "-sSN", "--http1.1", "--cacert", authority};
    argv.insert(argv.end(), words.begin(), words.end());
    return start_guest(argv);
  }
  bool says(const Program& program, const std::string& text) {
    return eventually([&] { return program.exit().out.find(text) != std::string::npos; });
  }
  bool asks(size_t how_many) {
    return eventually([&] { return proxy_->questions().size() == how_many; });
  }
  bool all_over() {
    return eventually([&] { return proxy_->counters().flows_now == 0; });
  }
};

TEST_F(Gone, IsToldToTheServer) {
  const Program& plain = serve_plain();
  const Program& tls = serve_tls();
  allow_endpoint("* http://api.example/v1/**");
  allow_endpoint("* https://api.example/v1/**");
  start_proxy();
  for (const auto& [scheme, server] : {std::pair("http", &plain), std::pair("https", &tls)})
    for (const std::string path : {"/v1/slow", "/v1/begin"}) {
      const auto client = curl({"-d", "x", std::string(scheme) + "://api.example" + path});
      ASSERT_TRUE(says(*server, "asked " + path + "\n")) << client->exit().err;
      if (path == "/v1/begin") {
        ASSERT_TRUE(says(*client, "half"));
      }
      client->kill();
      EXPECT_TRUE(says(*server, "asked " + path + "\ngone ")) << scheme << path;
      EXPECT_TRUE(all_over());
    }
}

TEST_F(Gone, IsNoReasonToAskTheServerAgain) {
  const Program& server = serve_plain();
  allow_endpoint("* http://api.example/v1/**");
  start_proxy();
  const auto client = curl({"http://api.example/v1/fast", "http://api.example/v1/slow"});
  ASSERT_TRUE(says(server, "asked /v1/slow"));
  client->kill();
  ASSERT_TRUE(says(server, "gone ") && all_over());
  EXPECT_EQ(server.exit().out, "asked /v1/fast\nasked /v1/slow\ngone /v1/slow\n");
}

// A client that has only said its last word gets its answers, if the server gives them.
TEST_F(Gone, AClientMayEndItsSideAndWait) {
  const Program& server = serve_plain();
  allow_endpoint("* http://api.example/v1/**");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.create_connection(('api.example', 80))
s.sendall(b''.join(b'GET /v1/%s HTTP/1.1\r\nHost: api.example\r\n\r\n' % p for p in (b'fast', b'fast', b'late')))
s.shutdown(socket.SHUT_WR); got = b''
while (part := s.recv(65536)): got += part
print(got.count(b' 200 '), got[-4:])
)"});
  EXPECT_EQ(exit.out, "3 b'late'\n") << exit.err << server.exit().out;
}

TEST_F(Gone, TakesItsQuestionBack) {
  serve_plain();
  serve_tls();
  ask_about({80, 443}, {{"r", "*", policy::PathPattern::parse("/v1/**").value(), Outcome::Ask}});
  start_proxy();
  for (const char* scheme : {"http", "https"}) {
    const auto client = curl({"-d", "x", std::string(scheme) + "://api.example/v1/a"});
    ASSERT_TRUE(asks(1)) << client->exit().err;
    client->kill();
    EXPECT_TRUE(asks(0)) << scheme;
    EXPECT_TRUE(all_over());
  }
}

TEST_F(Gone, TakesTheQuestionOfItsConnectionBack) {
  ask_about({443}, {});
  start_proxy();
  const auto client = start_guest({"curl", "-sS", "https://api.example/"});
  ASSERT_TRUE(asks(1)) << client->exit().err;
  client->kill();
  EXPECT_TRUE(asks(0));
  EXPECT_TRUE(all_over());
}

}
}
