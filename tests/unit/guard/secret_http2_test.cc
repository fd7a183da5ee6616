// Secrets in streams of HTTP/2: trailers and interim responses are looked into as heads are, and
// what a secret was put into is never indexed by HPACK, as an independent decoder sees it in the
// bytes.
#include "mvm/guard/secret_filter.h"

#include "../egress/http2_rig.h"

namespace mvm::egress {
namespace {

using guard::SecretNotice;
using guard::SecretSource;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kValue = "sk-real-value-0123456789";

// Tells each field, and whether it came as one that is never indexed; says the Authorization field
// back in an interim response, in the body and behind it.
constexpr const char* kServer = R"(
import socket, ssl, sys, threading, h2.config, h2.connection, h2.events, hpack
def tell(where, headers):
  for h in headers:
    print(where, 'never' if isinstance(h, hpack.NeverIndexedHeaderTuple) else 'plain', '%s=%s' % (h[0], h[1]), flush=True)
def serve(s):
  c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding='utf-8'))
  c.initiate_connection(); s.sendall(c.data_to_send()); echo = ''
  while (data := s.recv(65536)):
    for e in c.receive_data(data):
      if isinstance(e, h2.events.RequestReceived):
        tell('head', e.headers); echo = dict(e.headers).get('authorization', '-')
      elif isinstance(e, h2.events.TrailersReceived): tell('trailer', e.headers)
      elif isinstance(e, h2.events.DataReceived): c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
      elif isinstance(e, h2.events.StreamEnded):
        print('end', flush=True)
        c.send_headers(e.stream_id, [(':status', '103'), ('link', echo)])
        c.send_headers(e.stream_id, [(':status', '200'), ('x-echo', echo)])
        c.send_data(e.stream_id, echo.encode()); c.send_headers(e.stream_id, [('x-behind', echo)], end_stream=True)
    s.sendall(c.data_to_send())
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key'); c.set_alpn_protocols(['h2'])
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
  s, _ = l.accept()
  try: t = c.wrap_socket(s, server_side=True)
  except OSError: continue
  threading.Thread(target=serve, args=(t,), daemon=True).start()
)";

class SecretStreams : public Http2 {
 protected:
  void SetUp() override {
    Http2::SetUp();
    if (IsSkipped()) return;
    proto::SecretRule rule;
    rule.name = "KEY";
    rule.hosts = {"api.example"};
    rule.places = {"header", "query"};
    rule.headers = {"Authorization", "X-Custom"};
    proto::SecretsConfig config;
    config.rules = {rule};
    config.values = {{"KEY", kValue}};
    secrets_ = std::make_shared<secret::Secrets>(config);
    settings_.filters.push_back(std::make_shared<SecretSource>(
        secrets_, SecretSource::Watcher{[this](const SecretNotice& notice) {
                                          notices_.push_back(notice);
                                          return true;
                                        },
                                        [](const SecretNotice&) {}}));
    allow_host("api.example");
    settings_.policy.inspect = policy::inspected_for({secrets_->all()[0].binding});
    server_ =
        &serve({"/usr/bin/python3", "-u", "-c", kServer, kPublic, "443", pem_}, {ip(kPublic), 443});
    start_proxy();
  }
  std::string key() const { return secrets_->all()[0].placeholder; }
  std::string run(const std::string& code) {
    const auto exit = python("KEY = '" + key() + "'; VALUE = '" + kValue + "'\n" + code);
    EXPECT_EQ(exit.err, "");
    return exit.out;
  }
  std::shared_ptr<const secret::Secrets> secrets_;
  std::vector<SecretNotice> notices_;
  Program* server_ = nullptr;
};

TEST_F(SecretStreams, WhatASecretWasPutIntoIsNeverIndexed) {
  const std::string got = run(R"(
c = Client()
n = c.ask('/q?key=' + KEY, 'POST', end=False, more=[('authorization', 'Bearer ' + KEY), ('x-custom', KEY), ('x-plain', 'hello')])
c.c.send_data(n, b'body'); c.c.send_headers(n, [('x-sum', '7')], end_stream=True); c.flush()
g = c.answer(n)
print(g['status'], g['hint'].decode(), g['headers'][b'x-echo'].decode(), g['body'].decode(), g['trailers'][b'x-behind'].decode())
c.answer(c.ask('/plain'))
)");
  const std::string bearer = "Bearer " + key();
  EXPECT_EQ(got, "200 " + bearer + " " + bearer + " " + bearer + " " + bearer + "\n");
  const std::string seen = server_->exit().out;
  const std::string value = kValue;
  EXPECT_THAT(seen,
              AllOf(HasSubstr("head never authorization=Bearer " + value + "\n"),
                    HasSubstr("head never x-custom=" + value + "\n"),
                    HasSubstr("head never :path=/q?key=" + value + "\n"),
                    HasSubstr("head plain x-plain=hello\n"), HasSubstr("trailer plain x-sum=7\n"),
                    HasSubstr("head plain :path=/plain\n"), Not(HasSubstr(key()))));
}

// RFC 7541 §7.1.3: who passes a field on keeps that it is not to be indexed.
TEST_F(SecretStreams, WhatCameNeverIndexedGoesOnSo) {
  run(R"(
import hpack
c = Client()
c.answer(c.ask('/', more=[hpack.NeverIndexedHeaderTuple('x-mine', 'quiet'), ('x-open', 'loud')]))
)");
  EXPECT_THAT(server_->exit().out,
              AllOf(HasSubstr("head never x-mine=quiet\n"), HasSubstr("head plain x-open=loud\n")));
}

TEST_F(SecretStreams, NothingOfASecretIsInATrailer) {
  const std::string got = run(R"(
def post(value, name='x-note'):
  c = Client(); n = c.ask('/x', 'POST', end=False)
  c.c.send_data(n, b'body'); c.c.send_headers(n, [(name, value)], end_stream=True); c.flush()
  g = c.answer(n); return g['status'], [w for w in (b'secret_leak', b'secret_misuse') if w in g['body']]
print(post(VALUE), post(KEY), post('nothing'), post(KEY, 'x-custom'))
)");
  EXPECT_EQ(
      got,
      "(403, [b'secret_leak']) (403, [b'secret_misuse']) (200, []) (403, [b'secret_misuse'])\n");
  const std::string seen = server_->exit().out;
  EXPECT_THAT(seen, AllOf(HasSubstr("trailer plain x-note=nothing\n"), Not(HasSubstr(kValue)),
                          Not(HasSubstr(key()))));
  EXPECT_EQ(seen.find("end\n"), seen.rfind("end\n"));  // of one request alone
  EXPECT_THAT(told(), Contains(HasSubstr("http deny secret_leak POST api.example")));
}

// A WebSocket over HTTP/2 (RFC 8441) is not offered; who asks for one all the same gets none, and
// no secret leaves with it.
TEST_F(SecretStreams, NoHandshakeOfAWebSocketLeaves) {
  const std::string got = run(R"(
s = connect()
s.sendall(PREFACE + frame(1, 4, 1, field(b':method', b'CONNECT') + field(b':protocol', b'websocket') +
  field(b':scheme', b'https') + field(b':path', b'/ws') + field(b':authority', b'api.example') +
  field(b'authorization', b'Bearer ' + KEY.encode())))
data = b''; seen = {}
while 3 not in seen and 1 not in seen:
  data += s.recv(65536)
  while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], 'big'):
    length = int.from_bytes(data[:3], 'big'); seen[data[3]] = data[9:9 + length]; data = data[9 + length:]
settings = [int.from_bytes(seen[4][i:i + 2], 'big') for i in range(0, len(seen[4]), 6)] if 4 in seen else []
print('reset' if 3 in seen else 'answered', 8 in settings)
)");
  EXPECT_EQ(got, "reset False\n");
  EXPECT_EQ(server_->exit().out, "");
  EXPECT_TRUE(notices_.empty());
}

}
}
