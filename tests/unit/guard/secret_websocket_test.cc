// Secrets in the handshake of a WebSocket (RFC 6455 §4): they go where the rule lets them, are
// masked in the answer that ends what filters see, and go nowhere else. Over TLS, with a server
// that prints what it got.
#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/guard/secret_filter.h"
#include "mvm/sys/file.h"

#include "../egress/rig.h"

namespace mvm::egress {
namespace {

using guard::SecretNotice;
using guard::SecretSource;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kValue = "sk-real-value-0123456789";

// Prints each head; takes the handshake, says in it what it was given, chooses the protocol that
// was named last, and sends back each byte that follows.
constexpr const char* kServer = R"(
import base64, hashlib, socket, ssl, sys, threading
def serve(s):
  f = s.makefile('rb'); lines = []
  while (line := f.readline().strip()): lines.append(line.decode())
  print('\n'.join(lines), flush=True)
  fields = {k.lower(): v for k, v in (line.split(': ', 1) for line in lines[1:])}
  key = fields['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
  out = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Accept: ' +
         base64.b64encode(hashlib.sha1(key.encode()).digest()).decode(),
         'X-Seen: ' + lines[0].split()[1] + ' ' + fields.get('authorization', '-')]
  if 'sec-websocket-protocol' in fields:
    out.append('Sec-WebSocket-Protocol: ' + fields['sec-websocket-protocol'].split(', ')[-1])
  s.sendall('\r\n'.join(out + ['', '']).encode())
  while (data := f.read(1)): s.sendall(data)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
l = socket.create_server((sys.argv[1], int(sys.argv[2])))
def run(s):
  try: serve(c.wrap_socket(s, server_side=True))
  except (OSError, ssl.SSLError): pass
while True: threading.Thread(target=run, args=(l.accept()[0],), daemon=True).start()
)";

// Sends the handshake that the arguments tell, a byte at a time, and behind a 101 a frame; prints
// the answer's head, and the frame that comes back.
constexpr const char* kClient = R"(
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
s = c.wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
head = ['GET ' + sys.argv[2] + ' HTTP/1.1', 'Host: api.example', *sys.argv[3:], 'Upgrade: websocket', 'Connection: Upgrade',
        'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', '', '']
for byte in '\r\n'.join(head).encode(): s.sendall(bytes([byte]))
f = s.makefile('rb'); lines = []
while (line := f.readline().strip()): lines.append(line.decode())
print('\n'.join(lines))
if ' 101 ' in lines[0]:
  s.sendall(b'\x81\x03abc'); print(f.read(5))
else: print(f.read(4096).decode())
)";

class SecretHandshake : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("api.example", kPublic);
    rule_.name = "KEY";
    rule_.hosts = {"api.example"};
  }
  void start() {
    proto::SecretsConfig config;
    config.rules = {rule_};
    config.values = {{"KEY", kValue}};
    secrets_ = std::make_shared<const secret::Secrets>(config);
    settings_.filters = {std::make_shared<SecretSource>(
        secrets_, SecretSource::Watcher{[this](const SecretNotice& notice) {
                                          notices_.push_back(notice.what);
                                          return true;
                                        },
                                        [](const SecretNotice&) {}})};
    allow_host("api.example");
    allow_endpoint("GET https://api.example/**");
    settings_.policy.inspect = policy::inspected_for({secrets_->all()[0].binding});
    const std::string path = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    server_ =
        &serve({"/usr/bin/python3", "-u", "-c", kServer, kPublic, "443", path}, {ip(kPublic), 443});
    start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }
  std::string key() const { return secrets_->all()[0].placeholder; }
  std::string ask(const std::string& target, std::vector<std::string> fields = {}) {
    std::vector<std::string> argv{"/usr/bin/python3", "-c", kClient, authority_, target};
    argv.insert(argv.end(), fields.begin(), fields.end());
    const auto exit = guest(argv);
    return exit.out + exit.err;
  }
  std::string at_the_server() const { return server_->exit().out; }

  proto::SecretRule rule_;
  std::shared_ptr<const secret::Secrets> secrets_;
  std::vector<SecretNotice::What> notices_;
  std::string authority_;
  Program* server_ = nullptr;
};

TEST_F(SecretHandshake, TheServerHasTheValueAndTheClientNever) {
  start();
  const std::string got = ask("/ws", {"Authorization: Bearer " + key()});
  EXPECT_THAT(got, AllOf(HasSubstr("HTTP/1.1 101"), HasSubstr("X-Seen: /ws Bearer " + key()),
                         HasSubstr("b'\\x81\\x03abc'"), Not(HasSubstr("0123456789"))));
  EXPECT_THAT(at_the_server(), AllOf(HasSubstr("Authorization: Bearer " + std::string(kValue)),
                                     Not(HasSubstr(key()))));
  EXPECT_EQ(notices_, (std::vector{SecretNotice::What::Used, SecretNotice::What::Masked}));
}

TEST_F(SecretHandshake, GoesIntoTheQueryWhereTheRuleSaysSo) {
  rule_.places = {"query"};
  start();
  EXPECT_THAT(ask("/ws?key=" + key()),
              AllOf(HasSubstr("HTTP/1.1 101"), HasSubstr("X-Seen: /ws?key=" + key()),
                    Not(HasSubstr("0123456789"))));
  EXPECT_THAT(at_the_server(), HasSubstr("GET /ws?key=" + std::string(kValue)));
}

// Clients in browsers have no other field of their own to put a key into.
TEST_F(SecretHandshake, GoesIntoTheProtocolAndComesBackAsItWasAskedFor) {
  rule_.headers = {"Sec-WebSocket-Protocol"};
  start();
  const std::string got = ask("/ws", {"Sec-WebSocket-Protocol: realtime, api-key." + key()});
  EXPECT_THAT(
      got, AllOf(HasSubstr("HTTP/1.1 101"), HasSubstr("Sec-WebSocket-Protocol: api-key." + key()),
                 HasSubstr("b'\\x81\\x03abc'"), Not(HasSubstr("0123456789"))));
  EXPECT_THAT(at_the_server(),
              HasSubstr("Sec-WebSocket-Protocol: realtime, api-key." + std::string(kValue)));
}

TEST_F(SecretHandshake, GoesNowhereElse) {
  start();
  EXPECT_THAT(ask("/ws?key=" + key()), AllOf(HasSubstr("403"), HasSubstr("secret_misuse")));
  EXPECT_THAT(ask("/ws", {"Sec-WebSocket-Protocol: api-key." + key()}),
              AllOf(HasSubstr("403"), HasSubstr("secret_misuse")));
  EXPECT_THAT(ask("/ws", {"X-Request-Id: " + key()}),
              AllOf(HasSubstr("403"), HasSubstr("secret_misuse")));
  EXPECT_THAT(ask("/ws", {std::string("Authorization: Bearer ") + kValue}),
              AllOf(HasSubstr("403"), HasSubstr("secret_leak")));
  EXPECT_THAT(at_the_server(), IsEmpty());
  EXPECT_THAT(told(), Contains(HasSubstr("http deny secret_misuse GET api.example")));
  EXPECT_THAT(told(), Contains(HasSubstr("http deny secret_leak GET api.example")));
}

}
}
