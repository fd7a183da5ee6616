// HTTP/2 of real clients and servers, looked into stream by stream.
#include <gmock/gmock.h>

#include "http2_rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// ---- judging

TEST_F(Http2, JudgesEachStreamOfAConnection) {
  Program& server = serve_http2();
  allow_endpoint("GET https://api.example/v1/**");
  start_proxy();
  const auto exit =
      curl({"https://api.example/v1/a", "https://api.example/v1/b?q=1", "https://api.example/admin",
            "https://api.example/v1/c", "-w", " %{http_version} %{http_code} %{num_connects}\n"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("hello /v1/a 2 200 1\nhello /v1/b?q=1 2 200 0\n"),
                              HasSubstr(" 2 403 0\nhello /v1/c 2 200 0\n")))
      << exit.err;
  EXPECT_THAT(exit.out, AllOf(HasSubstr("\"reason\":\"policy_denied\""), HasSubstr("api.example"),
                              HasSubstr("--allow-endpoint 'GET https://api.example:443/admin'")));
  EXPECT_EQ(server.exit().out, "GET /v1/a\nGET /v1/b?q=1\nGET /v1/c\n");
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_THAT(told(),
              ElementsAre("dns allow allowed A api.example", "dns allow allowed AAAA api.example",
                          "http allow allowed GET api.example 93.184.216.34 443",
                          "http allow allowed GET api.example 93.184.216.34 443",
                          "http deny policy_denied GET api.example 93.184.216.34 443",
                          "http allow allowed GET api.example 93.184.216.34 443",
                          "end allow allowed api.example 93.184.216.34 443"));
  EXPECT_EQ(events_of(EventKind::Http).at(1).path, "/v1/b");
  EXPECT_EQ(events_of(EventKind::Http).at(0).flow, events_of(EventKind::End).at(0).flow);
  EXPECT_EQ(events_of(EventKind::End).at(0).detail, "");
}

TEST_F(Http2, RefusesAStreamForAnotherHostAndNoOther) {
  Program& server = serve_http2();
  allow_endpoint("GET https://api.example/**");
  allow_endpoint("GET https://evil.test/**");
  start_proxy();
  const auto exit = python(R"(
c = Client()
for authority in ('evil.test', 'api.example:8443', 'api.example', 'API.example:443', '93.184.216.34'):
  g = c.answer(c.ask('/x', authority=authority))
  print(authority, g['status'], b'authority_mismatch' in g['body'])
n = c.ask('', 'CONNECT', 'api.example:443', end=False); print('connect', c.answer(n)['status'])
print(c.answer(c.ask('/last'))['body'])
)");
  // h2 gives CONNECT the scheme and path that it must not have: a fault of the stream alone.
  EXPECT_EQ(exit.out,
            "evil.test 403 True\napi.example:8443 403 True\napi.example 200 False\n"
            "API.example:443 200 False\n93.184.216.34 403 True\nconnect None\nb'hello /last'\n")
      << exit.err;
  EXPECT_EQ(server.exit().out, "GET /x\nGET /x\nGET /last\n");
}

TEST_F(Http2, RefusesPathsThatServersReadDifferently) {
  Program& server = serve_http2();
  allow_endpoint("GET https://api.example/v1/**");
  start_proxy();
  for (const char* path : {"/v1/../admin", "/v1/%2e%2e/admin", "/v1//admin", "/v1/a%2fb",
                           "/v1/..;/admin", "/v1/%252e%252e/admin"})
    EXPECT_THAT(curl({"--path-as-is", std::string("https://api.example") + path}).out,
                HasSubstr("ambiguous_path"))
        << path;
  EXPECT_THAT(server.exit().out, IsEmpty());
}

TEST_F(Http2, TakesOutSegmentsThatSayHere) {
  Program& server = serve_http2();
  allow_endpoint("GET https://api.example/v1/**");
  start_proxy();
  EXPECT_EQ(curl({"--path-as-is", "https://api.example/v1/./a/."}).out, "hello /v1/a/");
  EXPECT_EQ(server.exit().out, "GET /v1/a/\n");
}

TEST_F(Http2, RefusesTunnels) {
  Program& server = serve_http2();
  allow_endpoint("* https://api.example/**");
  start_proxy();
  const auto exit = python(R"(
s = connect()
s.sendall(PREFACE + frame(1, 4, 1, field(b':method', b'CONNECT') + field(b':authority', b'api.example:443')))
got = b''
while b'protocol_unsupported' not in got: got += s.recv(65536)
print('refused')
# A WebSocket within a stream (RFC 8441), which nobody was offered, and what a proxy may not know at all.
for id, kind in ((3, b'websocket'), (5, b'connect-udp')):
  s.sendall(frame(1, 4, id, field(b':method', b'CONNECT') + field(b':protocol', kind) + field(b':scheme', b'https') +
                  field(b':path', b'/') + field(b':authority', b'api.example')))
  reset = b'\0\0\4\3\0' + id.to_bytes(4, 'big')
  while reset not in got: got += s.recv(65536)
  print('reset')
)");
  EXPECT_EQ(exit.out, "refused\nreset\nreset\n") << exit.err;
  EXPECT_THAT(server.exit().out, IsEmpty());
  EXPECT_THAT(told(), Contains("http deny protocol_unsupported api.example 93.184.216.34 443"));
}

// Its rest would come for nothing.
TEST_F(Http2, StopsTheBodyOfARefusedRequest) {
  serve_http2();
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const auto exit = python(R"(
c = Client()
n = c.ask('/upload', 'POST', end=False); c.c.send_data(n, b'x' * 10000); c.flush()
g = c.answer(n)
while g['reset'] is None: c.turn()
print(g['status'], b'policy_denied' in g['body'], g['end'], g['reset'])
print(c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out, "403 True True 0\nb'hello /next'\n") << exit.err;
}

// ---- which version

TEST_F(Http2, OffersTheGuestWhatTheServerSpeaks) {
  serve({"/usr/bin/python3", "-c", R"(
import http.server, ssl, sys
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def do_GET(self): self.send_response(200); self.send_header('Content-Length', '3'); self.end_headers(); self.wfile.write(b'old')
s = http.server.ThreadingHTTPServer((sys.argv[1], 443), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[2] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)",
         kPublic, pem_},
        {ip(kPublic), 443});
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  EXPECT_EQ(curl({"https://api.example/", "https://api.example/", "-w",
                  " %{http_version} %{num_connects}\n"})
                .out,
            "old 1.1 1\nold 1.1 0\n");
  // Who wants nothing but HTTP/2 hears what such a server would say.
  const auto exit = python(R"(
try: connect()
except ssl.SSLError as e: print(e.args[1][6:35])
)");
  EXPECT_EQ(exit.out, "tlsv1 alert no application pr\n") << exit.err;
}

TEST_F(Http2, RefusesAGuestThatHasNothingInCommonWithTheServer) {
  serve_http2();
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  EXPECT_EQ(guest({"curl", "-sS", "--http1.1", "--cacert", authority_, "https://api.example/", "-o",
                   "/dev/null", "-w", "%{http_code}"})
                .out,
            "502");
  const auto exit = python(R"(
for offer in (('spdy/3',), ('h2', 'http/1.1'), ('http/1.1', 'h2')):
  try: print(connect(offer).selected_alpn_protocol())
  except ssl.SSLError as e: print(e.args[1][6:35])
)");
  EXPECT_EQ(exit.out, "tlsv1 alert no application pr\nh2\nh2\n") << exit.err;
}

// ---- bodies

TEST_F(Http2, CarriesBodiesOfAnySize) {
  serve_http2();
  allow_endpoint("POST https://api.example/sum");
  start_proxy();
  const auto exit =
      guest({"sh", "-c",
             "cd " + directory() +
                 "\n"
                 "for n in 0 1 16384 65535 65536 300000 1048576 9000000; do\n"
                 "  head -c $n /dev/urandom > body\n"
                 "  want=$(sha256sum < body | cut -d' ' -f1)\n"
                 "  for how in 'Expect:' 'Transfer-Encoding: chunked'; do\n"
                 "    got=$(curl -sS --http2 --cacert authority.pem -H \"$how\" --data-binary "
                 "@body https://api.example/sum)\n"
                 "    test \"$got\" = \"$want\" || echo $n $how: $got\n"
                 "  done\n"
                 "done"});
  EXPECT_EQ(exit.out + exit.err, "");
}

TEST_F(Http2, CarriesManyStreamsAtOnce) {
  serve_http2();
  allow_endpoint("* https://api.example/**");
  start_proxy();
  // Of a connection, five times as many as may be open at once.
  const auto exit = guest({"node", "-e", R"(
const http2 = require('http2'), fs = require('fs'), crypto = require('crypto');
const session = http2.connect('https://api.example', {ca: fs.readFileSync(process.argv[1]), maxSessionMemory: 100});
const body = crypto.randomBytes(70000), want = crypto.createHash('sha256').update(body).digest('hex');
let left = 600, bad = 0;
for (let i = 0; i < 600; ++i) {
  const up = i % 3 == 0, big = i % 120 == 1;
  const s = session.request({':path': up ? '/sum' : big ? '/big' : '/' + i, ':method': up ? 'POST' : 'GET'});
  let got = ''; let length = 0;
  s.on('data', d => { length += d.length; if (!big) got += d; });
  s.on('error', e => console.log(e.message));
  s.on('close', () => {
    if (big ? length != 8388608 : got != (up ? want : 'hello /' + i)) ++bad;
    if (--left == 0) { console.log('bad ' + bad); session.close(); }
  });
  if (up) s.end(body); else s.end();
}
)",
                           authority_});
  EXPECT_EQ(exit.out, "bad 0\n") << exit.err;
  EXPECT_EQ(events_of(EventKind::Http).size(), 600U);
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_EQ(events_of(EventKind::End).size(), 1U);
}

// What a server does not take yet waits; where that would keep too much, clients are asked to try
// again.
TEST_F(Http2, WaitsForAServerThatTakesFewStreams) {
  serve_http2("2");
  allow_endpoint("* https://api.example/**");
  start_proxy();
  const char* const code = R"(
const http2 = require('http2'), fs = require('fs');
const session = http2.connect('https://api.example', {ca: fs.readFileSync(process.argv[1])});
session.on('remoteSettings', () => {});
const length = +process.argv[2]; let left = 40, good = 0, refused = 0;
for (let i = 0; i < 40; ++i) {
  const s = session.request({':path': '/sum', ':method': 'POST'}); let got = '';
  s.on('data', d => got += d); s.on('error', () => {});
  s.on('close', () => {
    if (s.rstCode == 7) ++refused; else if (got.length == 64) ++good;
    if (--left == 0) { console.log(good + refused, refused > 0); session.close(); }
  });
  s.end(Buffer.alloc(length));
}
)";
  EXPECT_EQ(guest({"node", "-e", code, authority_, "10000"}).out, "40 false\n");
  EXPECT_EQ(guest({"node", "-e", code, authority_, "200000"}).out, "40 true\n");
}

TEST_F(Http2, PassesEventsOnAsTheyCome) {
  serve_http2();
  allow_endpoint("GET https://api.example/**");
  start_proxy();
  const std::vector<std::string> curl{"curl", "-sSN", "--http2", "--cacert", authority_};
  const auto ask = [&](const std::string& path) {
    auto words = curl;
    words.push_back("https://api.example" + path);
    return words;
  };
  const auto client = start_guest(ask("/events"));
  std::string want;
  for (int event = 0; event < 3; ++event) {
    if (event > 0) {
      EXPECT_EQ(guest(ask("/another")).err, "");
    }
    want += "data: " + std::to_string(event) + "\n\n";
    ASSERT_TRUE(eventually([&] { return client->exit().out == want; })) << client->exit().out;
  }
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().code, 0) << client->exit().err;
}

TEST_F(Http2, CarriesInterimAnswersTrailersAndAnswersWithoutABody) {
  serve_http2();
  allow_endpoint("* https://api.example/**");
  start_proxy();
  const auto exit = python(R"(
c = Client()
g = c.answer(c.ask('/hints')); print(g['interim'], g['status'], g['body'])
g = c.answer(c.ask('/trailers', more=[('te', 'trailers')])); print(g['body'], g['trailers'])
g = c.answer(c.ask('/none')); print(g['status'], g['body'], g['end'])
g = c.answer(c.ask('/x', 'HEAD')); print(g['status'], g['body'], g['end'])
n = c.ask('/sum', 'POST', end=False); c.c.send_data(n, b'abc'); c.c.send_headers(n, [('x-check', '1')], True); c.flush()
print(c.answer(n)['body'][:8])
)");
  EXPECT_EQ(exit.out,
            "[b'103'] 200 b'hinted'\nb'body' {b'x-sum': b'7', b'x-te': b'trailers'}\n"
            "204 b'' True\n200 b'' True\nb'ba7816bf'\n")
      << exit.err;
}

// A slow reader stops its own stream's writer, however much the connection carries besides.
TEST_F(Http2, AReaderThatStopsStopsTheWriter) {
  serve_http2();
  allow_endpoint("* https://api.example/**");
  start_proxy();
  const auto exit = python(R"(
c = Client()
slow = c.ask('/endless')
while len(c.got[slow]['body']) < 65535: c.turn(acknowledge=False)
c.c.increment_flow_control_window(1 << 20); c.flush()
# The other stream goes on, again and again, while that one stands.
last = None
while True:
  now = int(c.answer(c.ask('/written'))['body'])
  if now == last: break
  last = now; time.sleep(0.3)
print(last < 4 << 20, len(c.got[slow]['body']))
print(len(c.answer(c.ask('/big'))['body']))
)");
  EXPECT_EQ(exit.out, "True 65535\n8388608\n") << exit.err;
}

// And a server that does not read stops the client, not the client's other streams.
TEST_F(Http2, AServerThatDoesNotReadStopsTheClient) {
  serve_http2();
  allow_endpoint("* https://api.example/**");
  start_proxy();
  const auto exit = python(R"(
c = Client()
deaf = c.ask('/deaf', 'POST', end=False)
sent = 0; idle = 0
while idle < 3:
  room = min(c.c.local_flow_control_window(deaf), c.c.max_outbound_frame_size)
  if room > 0: c.c.send_data(deaf, b'x' * room); c.flush(); sent += room; idle = 0
  else: c.answer(c.ask('/x')); idle += 1
print(sent < 2 << 20)
body = b'y' * 100000; n = c.ask('/sum', 'POST', end=False)
while body:
  room = min(c.c.local_flow_control_window(n), c.c.max_outbound_frame_size, len(body))
  if room > 0: c.c.send_data(n, body[:room]); body = body[room:]; c.flush()
  else: c.turn()
c.c.end_stream(n); c.flush()
print(len(c.answer(n)['body']))
)");
  EXPECT_EQ(exit.out, "True\n64\n") << exit.err;
}

TEST_F(Http2, PassesAnAnswerThatComesBeforeTheRequestHasEnded) {
  serve_http2();
  allow_endpoint("* https://api.example/**");
  start_proxy();
  const auto exit = python(R"(
c = Client()
n = c.ask('/early', 'POST', end=False); g = c.answer(n); print(g['status'], g['body'])
while g['reset'] is None: c.turn()
print(g['reset'], c.answer(c.ask('/next'))['body'])
)");
  EXPECT_EQ(exit.out, "413 b'too much'\n0 b'hello /next'\n") << exit.err;
}

}
}
