// How streams and connections of HTTP/2 end, in order and out of it, and what a peer may cost.
#include "http2_rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Http2Ends : public Http2 {
 protected:
  void SetUp() override {
    Http2::SetUp();
    if (!IsSkipped()) allow_endpoint("* https://api.example/**");
  }
  Event end() {
    EXPECT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
    return events_of(EventKind::End).at(0);
  }
  // Why requests for a path were not carried to their ends.
  std::vector<Reason> stopped(const std::string& path) {
    std::vector<Reason> out;
    for (const Event& event : events_of(EventKind::Http))
      if (event.path == path && event.outcome == policy::Outcome::Deny) out.push_back(event.reason);
    return out;
  }
};

// ---- streams

TEST_F(Http2Ends, PassesOnAResetWithItsReason) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
g = c.answer(c.ask('/reset')); print(g['status'], g['reset'])
g = c.answer(c.half('/half-reset')); print(g['status'], g['body'], g['end'], g['reset'])
print(c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out, "None 11\n200 b'half' False 2\nb'hello /next'\n") << exit.err;
}

TEST_F(Http2Ends, PassesOnAResetOfTheClient) {
  Program& server = serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
n = c.ask('/endless')
while not c.got[n]['body']: c.turn()
c.c.reset_stream(n, h2.errors.ErrorCodes.CANCEL); c.flush()
print(c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out, "b'hello /next'\n") << exit.err;
  EXPECT_TRUE(eventually(
      [&] { return server.exit().out.find("aborted /endless 8\n") != std::string::npos; }));
}

TEST_F(Http2Ends, AMalformedRequestEndsItsStreamAlone) {
  Program& server = serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
for more in ([('connection', 'close')], [('transfer-encoding', 'chunked')], [('te', 'gzip')], [('x', 'a\r\nb: c')],
             [('host', 'evil.test')], [('content-length', '5')], [('Upper', 'x')]):
  g = c.answer(c.ask('/bad', more=more)); print(more[0][0], g['status'], g['reset'])
print(c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out,
            "connection None 1\ntransfer-encoding None 1\nte None 1\nx None 1\nhost None 1\n"
            "content-length None 1\nUpper None 1\nb'hello /next'\n")
      << exit.err;
  EXPECT_EQ(server.exit().out, "GET /next\n");
  // Each is on record: equal ones within a second as one with a count.
  const auto refused = [&] {
    auto out = events_of(EventKind::Http);
    std::erase_if(out, [](const Event& event) { return event.outcome != policy::Outcome::Deny; });
    return out;
  };
  EXPECT_TRUE(eventually([&] { return refused().size() == 2; }));
  uint64_t count = 0;
  for (const Event& event : refused()) {
    EXPECT_EQ(event.reason, Reason::ProtocolUnsupported);
    EXPECT_EQ(event.host, "api.example");
    EXPECT_NE(event.flow, 0U);
    EXPECT_THAT(event.detail, HasSubstr("its HTTP/2: "));
    EXPECT_EQ(event.path, "");
    count += event.count;
  }
  EXPECT_EQ(count, 7U);
}

// It was admitted, and begun; what came then was no message.
TEST_F(Http2Ends, ARequestThatBreaksInTheMiddleIsOnRecord) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
n = c.ask('/sum', 'POST', end=False, more=[('content-length', '3')])
c.c.send_data(n, b'abcdef', end_stream=True); c.flush()
g = c.answer(n); print(g['status'], g['reset'])
print(c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out, "None 1\nb'hello /next'\n") << exit.err;
  EXPECT_THAT(stopped("/sum"), ElementsAre(Reason::ProtocolUnsupported));
  EXPECT_THAT(stopped("/next"), IsEmpty());
}

// ---- the server's connection

TEST_F(Http2Ends, AnAnswerThatIsNoneIsOnRecord) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
g = c.answer(c.ask('/malformed')); print(g['status'], g['reset'])
print(c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out, "200 2\nb'hello /next'\n") << exit.err;
  EXPECT_THAT(stopped("/malformed"), ElementsAre(Reason::UpstreamUnreachable));
  EXPECT_THAT(stopped("/next"), IsEmpty());
}

TEST_F(Http2Ends, SaysThatTheServerHasGoneBeforeItsAnswer) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
g = c.answer(c.ask('/die')); print(g['status'], g['body'])
while c.goaway is None: c.turn()
print(int(c.goaway))
)");
  EXPECT_THAT(exit.out, AllOf(HasSubstr("502 "), HasSubstr("upstream_unreachable"),
                              HasSubstr("api.example: ")))
      << exit.err;
  EXPECT_TRUE(exit.out.ends_with("\n0\n")) << exit.out;
  EXPECT_EQ(end().reason, Reason::UpstreamUnreachable);
}

TEST_F(Http2Ends, CutsOffWhatTheServerCutOff) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
a = c.half('/half-die')
g = c.answer(a); print(g['status'], g['body'], g['end'], g['reset'])
)");
  EXPECT_EQ(exit.out, "200 b'half' False 2\n") << exit.err;
  EXPECT_EQ(end().reason, Reason::UpstreamUnreachable);
}

// The request goes on when its answer is whole and nobody is left to hear it.
TEST_F(Http2Ends, StopsTheBodyOfARequestWhoseServerHasGone) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
n = c.ask('/early-die', 'POST', end=False); g = c.answer(n); print(g['status'], g['body'])
try:
  while g['reset'] is None: c.c.send_data(n, b'x'); c.flush(); time.sleep(0.02); c.c.ping(b'12345678'); c.flush(); c.turn()
except h2.exceptions.StreamClosedError: pass
print(g['reset'])
)");
  EXPECT_EQ(exit.out, "413 b'too much'\n0\n") << exit.err;
}

TEST_F(Http2Ends, PassesOnAGoAwayAndLetsStreamsEnd) {
  serve_http2();
  start_proxy();
  const auto exit = guest({"node", "-e", R"(
const http2 = require('http2'), fs = require('fs');
const session = http2.connect('https://api.example', {ca: fs.readFileSync(process.argv[1])});
const ask = (path, method) => {
  const s = session.request({':path': path, ':method': method}); let got = '';
  s.on('data', d => got += d); s.on('close', () => console.log(path, got.length, s.rstCode));
  return s;
};
session.on('goaway', code => console.log('goaway', code)); session.on('close', () => console.log('close'));
const long = ask('/sum', 'POST');
ask('/goaway', 'GET').on('close', () => long.end('x'));
)",
                           authority_});
  EXPECT_EQ(exit.out, "goaway 0\n/goaway 4 0\n/sum 64 0\nclose\n") << exit.err;
  EXPECT_EQ(end().reason, Reason::Allowed);
  EXPECT_EQ(end().detail, "");
}

TEST_F(Http2Ends, LetsStreamsEndWhenTheClientGoesAway) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
c = Client()
a = c.ask('/sse')
c.s.sendall(frame(7, 0, 0, bytes(8)))
print(len(c.answer(a)['body']))
try:
  while True: c.turn()
except EOFError: print('end')
)");
  EXPECT_EQ(exit.out, "27\nend\n") << exit.err;
}

TEST_F(Http2Ends, ReportsAServerThatCannotBeReached) {
  start_proxy();
  const auto exit = python(R"(
c = Client()
g = c.answer(c.ask('/x')); print(g['status'], g['body'])
)");
  EXPECT_THAT(exit.out, AllOf(HasSubstr("502"), HasSubstr("upstream_unreachable"),
                              HasSubstr("onnection refused")))
      << exit.err;
  EXPECT_EQ(end().reason, Reason::UpstreamUnreachable);
}

TEST_F(Http2Ends, ReportsAServerThatBreaksTheProtocol) {
  serve({"/usr/bin/python3", "-c", R"(
import socket, ssl, sys, threading
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[2] + '.key'); c.set_alpn_protocols(['h2'])
l = socket.create_server((sys.argv[1], 443))
def serve(s):
  try:
    s = c.wrap_socket(s, server_side=True); got = b''
    while b'\x01\x05' not in got and b'\x01\x25' not in got: got += s.recv(65536)
    s.sendall(b'HTTP/1.1 200 OK\r\n\r\n'); s.recv(65536); s.recv(65536)
  except OSError: pass
while True: threading.Thread(target=serve, args=(l.accept()[0],), daemon=True).start()
)",
         kPublic, pem_},
        {ip(kPublic), 443});
  start_proxy();
  const auto exit = curl({"https://api.example/", "-w", "%{http_code}"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("502"), HasSubstr("its answer is no HTTP/2")));
  EXPECT_EQ(end().reason, Reason::UpstreamUnreachable);
}

// ---- what a peer may cost

TEST_F(Http2Ends, EndsAConnectionThatCostsAndMovesNothing) {
  Program& server = serve_http2();
  start_proxy();
  const struct {
    const char* name;
    const char* frames;  // in Python, one after the other
  } floods[] = {
      {"resets",
       "(frame(1, 5, n, block(b'/x')) + frame(3, 0, n, bytes(3) + b'\\x08') for n in range(1, "
       "40001, 2))"},
      {"pings", "(frame(6, 0, 0, bytes(8)) for n in range(20000))"},
      {"settings", "(frame(4, 0, 0) for n in range(20000))"},
      {"empty data",
       "(frame(1, 4, 1, block(b'/sum', b'POST')) if n == 0 else frame(0, 0, 1) for n in "
       "range(20000))"},
      {"continuations",
       "(frame(1, 0, 1, block()) if n == 0 else frame(9, 0, 1, field(b'x', b'y' * 100)) for n in "
       "range(20000))"},
      {"windows", "(frame(8, 0, 0, struct.pack('>I', 1)) for n in range(20000))"},
      {"priorities", "(frame(2, 0, 2 * n + 1, bytes(5)) for n in range(20000))"},
      {"malformed requests",
       "(frame(1, 5, n, block(more=field(b'x', b'\\n'))) for n in range(1, 40001, 2))"},
  };
  for (const auto& flood : floods) {
    events_.clear();
    const auto exit = python(std::string(R"(
s = connect(); s.sendall(PREFACE)
try:
  for f in )") + flood.frames +
                             R"(: s.sendall(f)
  while s.recv(65536): pass
  print('end')
except OSError as e: print('end')
)");
    EXPECT_EQ(exit.out, "end\n") << flood.name << exit.err;
    EXPECT_EQ(end().reason, Reason::ResourceExhausted) << flood.name << ": " << end().detail;
    EXPECT_LT(events_of(EventKind::Http).size(), 1500U) << flood.name;
  }
  const std::string& seen = server.exit().out;
  EXPECT_LT(std::count(seen.begin(), seen.end(), '\n'), 5000);
}

TEST_F(Http2Ends, SomethingElseThanHttp2IsTold) {
  serve_http2();
  start_proxy();
  const auto exit = python(R"(
s = connect(); s.sendall(b'GET / HTTP/1.1\r\nHost: api.example\r\n\r\n')
got = b''
try:
  while part := s.recv(65536): got += part
except OSError: pass
print(b'\x00\x00\x00\x01' in got)
)");
  EXPECT_EQ(exit.out, "True\n") << exit.err;
  EXPECT_EQ(end().reason, Reason::ProtocolUnsupported);
}

TEST_F(Http2Ends, EndsAtTheLimitOfBytes) {
  serve_http2();
  settings_.limits.total_bytes = 1 << 20;
  start_proxy();
  EXPECT_NE(curl({"-o", "/dev/null", "https://api.example/big"}).code, 0);
  EXPECT_EQ(end().reason, Reason::ResourceExhausted);
  EXPECT_LT(end().received, 2U << 20);
}

TEST_F(Http2Ends, KeepsToTheLimitOfBytesASecond) {
  serve_http2();
  settings_.limits.receive_bytes_per_second = 4 << 20;
  start_proxy();
  const auto exit = guest({"sh", "-c",
                           "curl -sS --http2 --cacert " + authority_ +
                               " -w '%{stderr}%{time_total}' https://api.example/big | sha256sum"});
  // 128 times 64 KiB of one byte each.
  EXPECT_TRUE(
      exit.out.starts_with("f9d2ba88de33894401ab8169a620271f6b6cc66bba659a407d9bf237d66f01b6"))
      << exit.out;
  EXPECT_GT(std::stod(exit.err), 0.8);
}

// Far more than windows and buffers hold has passed when it has.
TEST_F(Http2Ends, KeepsNothingOfALongBody) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "this build keeps what was freed";
#endif
  serve_http2();
  start_proxy();
  const auto resident = [] {
    long pages = 0;
    std::FILE* const statm = std::fopen("/proc/self/statm", "r");
    EXPECT_EQ(std::fscanf(statm, "%*d %ld", &pages), 1);
    std::fclose(statm);
    return static_cast<size_t>(pages) * 4096;
  };
  const size_t before = resident();
  const auto client = start_guest({"sh", "-c",
                                   "curl -sS --http2 --cacert " + authority_ +
                                       " https://api.example/endless | head -c 200000000 | wc -c"});
  client->end_input();
  size_t most = 0;
  ASSERT_TRUE(eventually([&] {
    most = std::max(most, resident());
    return client->ended();
  }));
  EXPECT_EQ(client->exit().out, "200000000\n") << client->exit().err;
  EXPECT_LT(most, before + (24U << 20));
}

}
}
