// WebSockets of a real client and a real server, wherever the proxy stands between them.
#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/sys/file.h"

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

constexpr const char* kPublic = "93.184.216.34";

// Echoes at /ws on both ports; closes, pings and tells what it is told to.
constexpr const char* kServer = R"(
const fs = require('fs'), http = require('http'), https = require('https'), ws = require('ws')
const [address, pem] = process.argv.slice(1)
const serve = (server, port) => {
  const sockets = new ws.WebSocketServer({server, path: '/ws', perMessageDeflate: true,
    handleProtocols: offered => offered.has('chat') && 'chat'})
  sockets.on('connection', s => {
    s.on('message', (m, binary) => {
      const text = binary ? '' : m.toString()
      if (text.startsWith('close ')) s.close(+text.slice(6), 'as asked')
      else if (text == 'ping me') s.ping('from the server')
      else s.send(m, {binary})
    })
    s.on('pong', d => s.send('heard ' + d))
    s.on('close', (code, why) => console.log('closed', code, why.toString()))
  })
  server.listen(port, address)
}
serve(http.createServer(), 80)
serve(https.createServer({cert: fs.readFileSync(pem), key: fs.readFileSync(pem + '.key')}), 443)
)";

constexpr const char* kClient = R"(
const fs = require('fs'), crypto = require('crypto'), ws = require('ws')
const [url, ca] = process.argv.slice(1)
const tell = (...words) => console.log(words.join(' '))
const open = () => new Promise((good, bad) => {
  const s = new ws(url, 'chat', {ca: fs.readFileSync(ca), perMessageDeflate: true})
  s.on('open', () => good(s)); s.on('error', bad)
})
const said = s => new Promise(good => s.once('message', (m, binary) => good([m, binary])))
const closed = s => new Promise(good => s.once('close', (code, why) => good(code + ' ' + why)))
;(async () => {
  const s = await open()
  tell(s.protocol, s.extensions.split(';')[0])
  s.send('one'); tell((await said(s))[0])
  const noise = crypto.randomBytes(1 << 20); s.send(noise)
  let [m, binary] = await said(s); tell(binary, noise.equals(m))
  const text = 'x'.repeat(1 << 20); s.send(text)
  ;[m, binary] = await said(s); tell(binary, m.toString() == text)
  s.send('of two', {fin: false}); s.send(' frames'); tell((await said(s))[0])
  const pong = new Promise(good => s.once('pong', good)); s.ping('from the client'); tell('pong', await pong)
  s.send('ping me'); tell((await said(s))[0])
  s.close(4001, 'enough'); tell(await closed(s))
  for (const code of [1000, 1013, 4999]) { const t = await open(); t.send('close ' + code); tell(await closed(t)) }
})().catch(e => { console.error(e); process.exit(1) })
)";

struct Way {
  const char* name;
  const char* url;
  bool route;  // requests are judged; else the host is admitted as it is
  const char* told;
};

class WebSocket : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    if (std::system("node -e 'require(\"/usr/share/nodejs/ws\")' 2>/dev/null") != 0)  // NOLINT
      GTEST_SKIP() << "not here: node with ws";
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    pem_ = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(pem_, 1 << 20)), pem_);
    server_ = &serve(node(kServer, {kPublic, pem_}), {ip(kPublic), 443});
  }
  static std::vector<std::string> node(const char* code, const std::vector<std::string>& words) {
    std::vector<std::string> argv{"env", "NODE_PATH=/usr/share/nodejs", "node", "-e", code};
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }

  std::string pem_;
  Program* server_ = nullptr;
};

class WebSocketWays : public WebSocket, public ::testing::WithParamInterface<Way> {};

TEST_P(WebSocketWays, CarryEverythingThatFramesCan) {
  const Way& way = GetParam();
  if (way.route) {
    allow_endpoint("GET http://api.example/ws");
    allow_endpoint("GET https://api.example/ws");
  } else {
    allow_host("api.example");
  }
  start_proxy();
  const std::string ca = way.route ? file("authority.pem", proxy_->authority_pem()) : pem_;
  const auto exit = guest(node(kClient, {way.url, ca}));
  EXPECT_EQ(exit.out,
            "chat permessage-deflate\none\ntrue true\nfalse true\nof two frames\n"
            "pong from the client\nheard from the server\n4001 enough\n"
            "1000 as asked\n1013 as asked\n4999 as asked\n")
      << exit.err;
  EXPECT_TRUE(eventually([&] {
    return server_->exit().out.find("closed 4001 enough\n") != std::string::npos;
  })) << server_->exit().out;
  EXPECT_THAT(told(), Contains(way.told).Times(4));
  // Each end was one in good order.
  ASSERT_TRUE(eventually([&] { return events_of(EventKind::End).size() == 4; }));
  for (const Event& end : events_of(EventKind::End)) EXPECT_EQ(end.detail, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, WebSocketWays,
    ::testing::Values(Way{"Plain", "ws://api.example/ws", false,
                          "http allow allowed GET api.example 93.184.216.34 80"},
                      Way{"PlainByRoute", "ws://api.example/ws", true,
                          "http allow allowed GET api.example 93.184.216.34 80"},
                      Way{"TlsRelayed", "wss://api.example/ws", false,
                          "tls allow allowed api.example 93.184.216.34 443"},
                      Way{"TlsByRoute", "wss://api.example/ws", true,
                          "http allow allowed GET api.example 93.184.216.34 443"}),
    [](const auto& made) { return std::string(made.param.name); });

// An agent waits for its next task: longer than any patience with a handshake, a request or an end,
// and longer than proxies are used to.
TEST_F(WebSocket, OutlivesAMinuteOfSilence) {
  allow_endpoint("GET http://api.example/ws");
  allow_endpoint("GET https://api.example/ws");
  start_proxy();
  const auto client = start_guest(node(R"(
const fs = require('fs'), ws = require('ws'), ca = fs.readFileSync(process.argv[1])
for (const url of ['ws://api.example/ws', 'wss://api.example/ws']) {
  const s = new ws(url, {ca})
  s.on('open', () => s.send('before'))
  s.on('message', m => {
    console.log(m.toString())
    if (m == 'before') setTimeout(() => s.send('after'), 61000); else s.close()
  })
  s.on('close', code => console.log('closed', code))
  s.on('error', e => console.log(e.message))
}
)",
                                       {file("authority.pem", proxy_->authority_pem())}));
  ASSERT_TRUE(eventually([&] { return client->exit().out == "before\nbefore\n"; }))
      << client->exit().out << client->exit().err;
  eventually([&] { return client->ended(); });  // and once more, as it lasts longer
  EXPECT_THAT(events_of(EventKind::End), IsEmpty());
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  const std::string& out = client->exit().out;
  EXPECT_EQ(out.substr(0, 14), "before\nbefore\n");
  for (const char* line : {"after\n", "closed 1005\n"}) {
    const size_t first = out.find(line);
    ASSERT_NE(first, out.npos) << out;
    EXPECT_NE(out.find(line, first + 1), out.npos) << out;
  }
}

}
}
