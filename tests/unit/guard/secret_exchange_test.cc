// Secrets through the proxy, with real TLS, a real client and a server that shows what it got.
#include <random>

#include <gmock/gmock.h>

#include "mvm/base/text.h"
#include "mvm/crypto/hash.h"
#include "mvm/crypto/trust.h"
#include "mvm/guard/secret_filter.h"
#include "mvm/http/coding.h"
#include "mvm/secret/text.h"
#include "mvm/sys/file.h"

#include "../egress/rig.h"

namespace mvm::egress {
namespace {

using guard::SecretNotice;
using guard::SecretSource;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";
constexpr std::string_view kKey = "sk-real\"value/0123456789";

// Prints each request whole, and answers with it whole: fields, and behind them the body. /gzip
// answers so although nobody asked for it.
constexpr const char* kEcho = R"(
import http.server, hashlib, ssl, sys, gzip
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def body(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      out = b''
      while (n := int(self.rfile.readline().split(b';')[0], 16)):
        out += self.rfile.read(n); self.rfile.readline()
      self.rfile.readline(); return out
    return self.rfile.read(int(self.headers.get('Content-Length', 0)))
  def do_POST(self):
    if self.path == '/ws':
      import base64
      print(bytes(self.headers).decode(), flush=True)
      proof = hashlib.sha1((self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()
      self.send_response(101); self.send_header('Upgrade', 'websocket'); self.send_header('Connection', 'Upgrade')
      self.send_header('Sec-WebSocket-Accept', base64.b64encode(proof).decode()); self.end_headers(); self.wfile.flush()
      while (part := self.rfile.read1(65536)):
        print('frame:', part.decode('latin-1'), flush=True); self.wfile.write(part); self.wfile.flush()
      self.close_connection = True
      return
    body = self.body()
    text = self.requestline.encode() + b'\n' + bytes(self.headers) + body
    if self.path != '/sum': print(text.decode(errors='replace'), flush=True)
    if self.path == '/sum': text = hashlib.sha256(body).hexdigest().encode()
    if self.path == '/utf16': text = body; print('text:', body.decode('utf-16'), flush=True)
    if self.path == '/gzip': text = gzip.compress(text)
    if self.path == '/large': text = text * (4000000 // len(text))
    self.send_response(200)
    self.send_header('X-Echo', (self.headers.get('Authorization') or '-'))
    if self.path == '/gzip': self.send_header('Content-Encoding', 'gzip')
    self.send_header('Content-Length', str(len(text))); self.end_headers()
    self.wfile.write(text)
  do_GET = do_POST
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
if len(sys.argv) > 3:
  c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
  s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

class SecretExchange : public EgressTest {
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
    config.values = {{"KEY", std::string(kKey)}};
    secrets_ = std::make_shared<secret::Secrets>(config);
    settings_.filters.push_back(std::make_shared<SecretSource>(
        secrets_, SecretSource::Watcher{[this](const SecretNotice& notice) {
                                          notices_.push_back(notice);
                                          return true;
                                        },
                                        [](const SecretNotice&) {}}));
    allow_host("api.example");
    for (const secret::Secret& secret : secrets_->all())
      settings_.policy.inspect = policy::inspected_for({secret.binding});
    const std::string path = certificate("api.example");
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    server_ = &serve({"python3", "-u", "-c", kEcho, kPublic, "443", path}, {ip(kPublic), 443});
    serve({"python3", "-u", "-c", kEcho, kPublic, "80"}, {ip(kPublic), 80});
    start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }
  std::string key() const { return secrets_->all()[0].placeholder; }
  std::string curl(const std::string& url, std::vector<std::string> words = {}) {
    std::vector<std::string> argv{"curl", "-sS", "-i", "-m", "30", "--cacert", authority_, url};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto exit = guest(argv);
    return exit.out + exit.err;
  }
  std::string at_the_server() const { return server_->exit().out; }

  proto::SecretRule rule_;
  std::shared_ptr<const secret::Secrets> secrets_;
  std::vector<SecretNotice> notices_;
  std::string authority_;
  Program* server_ = nullptr;
};

TEST_F(SecretExchange, TheServerHasTheValueAndTheClientNever) {
  start();
  const std::string echo = curl("https://api.example/x",
                                {"-H", "Authorization: Bearer " + key(), "-d", "about " + key()});
  EXPECT_THAT(echo, HasSubstr("200 OK"));
  EXPECT_THAT(echo, HasSubstr("X-Echo: Bearer " + key()));
  EXPECT_THAT(echo,
              AllOf(HasSubstr("Authorization: Bearer " + key()), HasSubstr("about " + key())));
  EXPECT_THAT(echo, Not(HasSubstr("0123456789")));
  EXPECT_THAT(at_the_server(), HasSubstr("Authorization: Bearer " + std::string(kKey)));
  EXPECT_THAT(at_the_server(), HasSubstr("about " + key()));
  EXPECT_THAT(at_the_server(), HasSubstr("Accept-Encoding: identity"));
}

TEST_F(SecretExchange, GoesIntoBasicCredentials) {
  start();
  const std::string echo = curl("https://api.example/x", {"-u", "user:" + key()});
  EXPECT_THAT(at_the_server(), HasSubstr("Basic " + secret::base64("user:" + std::string(kKey))));
  EXPECT_THAT(echo, HasSubstr("200 OK"));
  // The letters that hold nothing but it are gone.
  EXPECT_THAT(echo, Not(HasSubstr(secret::base64("user:" + std::string(kKey)).substr(8, 24))));
}

TEST_F(SecretExchange, EachRequestOfAConnectionIsSeen) {
  start();
  const std::string echo =
      curl("https://api.example/1", {"-H", "X-Api-Key: " + key(), "https://api.example/2"});
  EXPECT_THAT(at_the_server(), AllOf(HasSubstr("/1"), HasSubstr("/2")));
  EXPECT_EQ(std::ranges::count_if(
                notices_,
                [](const SecretNotice& notice) { return notice.what == SecretNotice::What::Used; }),
            2);
}

// Both in one write: the second is no part of the first one's body.
TEST_F(SecretExchange, PipelinedRequestsAreSeenEach) {
  start();
  const auto exit = guest({"/usr/bin/python3", "-c", R"(
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
s = c.wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
s.sendall(b''.join(b'POST /%d HTTP/1.1\r\nHost: api.example\r\nX-Api-Key: %s\r\nContent-Length: 4\r\n%s\r\nbody'
                   % (i, sys.argv[2].encode(), b'Connection: close\r\n' if i == 2 else b'') for i in (1, 2)))
data = b''
while (part := s.recv(65536)): data += part
print(data.decode())
)",
                           authority_, key()});
  EXPECT_THAT(exit.out,
              AllOf(HasSubstr("POST /1 "), HasSubstr("POST /2 "), Not(HasSubstr("0123456789"))))
      << exit.err;
  const std::string seen = at_the_server();
  const std::string field = "X-Api-Key: " + std::string(kKey);
  const size_t first = seen.find(field);
  ASSERT_NE(first, seen.npos) << seen;
  EXPECT_NE(seen.find(field, first + 1), seen.npos) << seen;
  EXPECT_THAT(seen, Not(HasSubstr(key())));
}

// Each byte in a write of its own, head and body: no piece of either is what is looked for.
TEST_F(SecretExchange, ComesByteByByte) {
  rule_.places = {"header", "body"};
  start();
  const auto exit = guest({"/usr/bin/python3", "-c", R"(
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1]); key, value = sys.argv[2].encode(), sys.argv[3].encode()
def ask(body):
  s = c.wrap_socket(socket.create_connection(('api.example', 443), 30), server_hostname='api.example')
  s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  try:
    for b in (b'POST /x HTTP/1.1\r\nHost: api.example\r\nX-Api-Key: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s'
              % (key, len(body), body)): s.sendall(bytes([b]))
  except OSError: pass
  data = b''
  while (part := s.recv(65536)): data += part
  print(data.decode())
ask(b'it is ' + key + b'.')
ask(b'it is ' + value + b'.')
)",
                           authority_, key(), std::string(kKey)});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("200 OK"), HasSubstr("it is " + key() + "."),
                              HasSubstr("secret_leak"), Not(HasSubstr("0123456789"))))
      << exit.err;
  EXPECT_THAT(at_the_server(),
              AllOf(HasSubstr("X-Api-Key: " + std::string(kKey)),
                    HasSubstr("it is " + std::string(kKey) + "."), Not(HasSubstr(key()))));
}

TEST_F(SecretExchange, IsRefusedWithoutTls) {
  start();
  const std::string answer = curl("http://api.example/x", {"-H", "X-Api-Key: " + key()});
  EXPECT_THAT(answer,
              AllOf(HasSubstr("403"), HasSubstr("secret_misuse"), HasSubstr("not encrypted")));
}

// Its handshake is a request like any other; what follows is not looked into, so a placeholder in
// it stays one.
TEST_F(SecretExchange, GoesIntoAHandshakeAndIntoNoFrame) {
  start();
  const auto exit = guest({"python3", "-c", R"(
import socket, ssl, sys
c = ssl.create_default_context(cafile=sys.argv[1])
s = c.wrap_socket(socket.create_connection(('api.example', 443)), server_hostname='api.example')
s.sendall(b'GET /ws HTTP/1.1\r\nHost: api.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
          b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
          b'Authorization: Bearer ' + sys.argv[2].encode() + b'\r\n\r\n')
f = s.makefile('rb'); print(f.readline().decode().strip())
while f.readline().strip(): pass
frame = b'\x81' + bytes([len(sys.argv[2])]) + sys.argv[2].encode()
s.sendall(frame); print(f.read(len(frame)) == frame)
)",
                           authority_, key()});
  EXPECT_EQ(exit.out, "HTTP/1.1 101 Switching Protocols\nTrue\n") << exit.err;
  EXPECT_THAT(at_the_server(), HasSubstr("Authorization: Bearer " + std::string(kKey)));
  EXPECT_THAT(at_the_server(), HasSubstr("frame: "));
  EXPECT_THAT(at_the_server(), HasSubstr(key()));
}

TEST_F(SecretExchange, AValueDoesNotLeave) {
  start();
  const std::string answer =
      curl("https://api.example/x", {"--data-binary", "before " + std::string(kKey)});
  EXPECT_THAT(answer, AllOf(HasSubstr("403"), HasSubstr("secret_leak")));
  EXPECT_THAT(at_the_server(), Not(HasSubstr("0123456789")));
}

// Whoever serves a zone reads what is asked of it, whatever comes of the answer.
TEST_F(SecretExchange, AValueInANameIsNotLookedUp) {
  allow_host("*.zone.example");
  settings_.http_proxy = {{ip("100.127.255.1"), 3128}};
  resolver_.add("www.zone.example", kPublic);
  start();
  const std::string name = hex(as_bytes(kKey)) + ".zone.example";
  const auto dig = [&](const std::string& of) {
    return guest({"dig", "+tries=1", "+time=3", of}).out;
  };
  EXPECT_THAT(dig(name), AllOf(HasSubstr("NXDOMAIN"), HasSubstr("secret_leak")));
  EXPECT_THAT(curl("https://" + name + "/", {"-x", "http://100.127.255.1:3128"}),
              AllOf(HasSubstr("403"), HasSubstr("secret_leak")));
  EXPECT_THAT(dig("www.zone.example"), HasSubstr(kPublic));
  EXPECT_THAT(resolver_.asked, ::testing::ElementsAre(HasSubstr("www.zone.example")));
  EXPECT_THAT(told(), ::testing::Contains(HasSubstr("dns deny secret_leak A")));
  EXPECT_EQ(events_.at(0).rule, "secret:KEY");
}

TEST_F(SecretExchange, LargeFormsAreRewritten) {
  rule_.places = {"form"};
  start();
  std::string form = "secret=" + key() + "&filler=";
  form += std::string(1 << 20, 'f');
  form += "&again=" + key();
  const std::string echo = curl("https://api.example/x", {"-d", "@" + file("form", form)});
  const std::string written = secret::written(kKey, secret::Writing::Percent);
  EXPECT_THAT(at_the_server(), HasSubstr("secret=" + written + "&filler="));
  EXPECT_THAT(at_the_server(), HasSubstr("&again=" + written));
  EXPECT_THAT(echo, HasSubstr("secret=" + key() + "&filler="));
  EXPECT_THAT(echo, Not(HasSubstr("0123456789")));
}

// As curl writes forms: with their length, and in chunks.
TEST_F(SecretExchange, FieldsOfMultipartFormsAreRewritten) {
  rule_.places = {"form"};
  start();
  const std::string large = file("large", std::string(1 << 20, 'f') + key() + "\r\n");
  for (const std::vector<std::string>& framing :
       {std::vector<std::string>{}, {"-H", "Transfer-Encoding: chunked"}}) {
    std::vector<std::string> words{"-F", "f=@" + large, "-F", "secret=" + key(), "-F", "after=x"};
    words.insert(words.end(), framing.begin(), framing.end());
    const std::string echo = curl("https://api.example/x", std::move(words));
    EXPECT_THAT(at_the_server(),
                HasSubstr("name=\"secret\"\r\n\r\n" + std::string(kKey) + "\r\n--"));
    EXPECT_THAT(at_the_server(), HasSubstr("ff" + key() + "\r\n"));
    EXPECT_THAT(echo, HasSubstr("name=\"secret\"\r\n\r\n" + key() + "\r\n--"));
    EXPECT_THAT(echo, Not(HasSubstr("0123456789")));
  }
}

TEST_F(SecretExchange, IsMaskedWhereverItStandsInALargeAnswer) {
  start();
  const std::string echo = curl("https://api.example/large", {"-H", "X-Api-Key: " + key()});
  EXPECT_GT(echo.size(), 3'000'000U);
  EXPECT_THAT(echo, Not(HasSubstr("0123456789")));
  EXPECT_GT(notices_.back().count, 1000U);
}

TEST_F(SecretExchange, BodiesInUtf16AreRead) {
  rule_.places = {"header", "body"};
  start();
  const std::vector<std::string> words{"-H", "Content-Type: text/plain; charset=utf-16",
                                       "--data-binary"};
  const auto post = [&](const std::string& name, const std::string& text, secret::Units units) {
    std::vector<std::string> all = words;
    const std::string mark = units == secret::Units::Big ? "\xfe\xff" : "\xff\xfe";
    all.push_back("@" + file(name, mark + secret::in_units(text, units)));
    return curl("https://api.example/utf16", all);
  };
  for (const secret::Units units : {secret::Units::Little, secret::Units::Big}) {
    const std::string name = units == secret::Units::Big ? "big" : "little";
    // The server tells how it reads the body, and sends it back as it came.
    const std::string echo = post(name, name + " " + key() + " end", units);
    EXPECT_THAT(echo, HasSubstr("200 OK"));
    EXPECT_THAT(echo, HasSubstr(secret::in_units(name + " " + key() + " end", units)));
    EXPECT_THAT(echo, Not(HasSubstr(secret::in_units("0123456789", units))));
    EXPECT_THAT(at_the_server(), HasSubstr("text: " + name + " " + std::string(kKey) + " end"));
    EXPECT_THAT(post("leak", name + " leak " + std::string(kKey), units),
                AllOf(HasSubstr("403"), HasSubstr("secret_leak")));
  }
  EXPECT_THAT(at_the_server(), Not(HasSubstr("leak")));
}

// Over HTTP/1.1; over HTTP/2 in secret_bodies_test.cc.
TEST_F(SecretExchange, WhatHoldsNoneOfItPassesByteForByte) {
  rule_.places = {"header", "body", "form"};
  start();
  std::mt19937 random(15);
  std::string bytes(300'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  http::Encoder encoder({http::Coding::Gzip});
  Bytes coded;
  encoder.write(as_bytes("{\"a\":\"" + bytes.substr(0, 100'000) + "\"}"), false, coded);
  encoder.finish(coded);
  const std::string gzip(as_text(coded));
  const auto post = [&](const std::string& body, std::vector<std::string> words) {
    words.insert(words.end(), {"--data-binary", "@" + file("body", body)});
    return curl("https://api.example/sum", std::move(words));
  };
  for (const char* framing : {"X-Framing: length", "Transfer-Encoding: chunked"}) {
    const std::vector<std::string> json{"-H", framing, "-H", "Content-Type: application/json"};
    std::vector<std::string> coded_json = json;
    coded_json.insert(coded_json.end(), {"-H", "Content-Encoding: gzip"});
    EXPECT_THAT(post(bytes, json), HasSubstr(hex(crypto::sha256(as_bytes(bytes)))));
    EXPECT_THAT(post(gzip, coded_json), HasSubstr(hex(crypto::sha256(coded))));
  }
}

TEST_F(SecretExchange, AValueThatSaysItIsCodedDoesNotLeave) {
  start();
  for (const char* coding : {"gzip", "x-unknown", "br, gzip"}) {
    const std::string answer =
        curl("https://api.example/x", {"-H", std::string("Content-Encoding: ") + coding,
                                       "--data-binary", "before " + std::string(kKey)});
    EXPECT_THAT(answer, AllOf(HasSubstr("403"), HasSubstr("secret_leak"))) << coding;
  }
  EXPECT_THAT(at_the_server(), Not(HasSubstr("0123456789")));
}

TEST_F(SecretExchange, ACodedAnswerShowsNoValue) {
  start();
  const std::string answer =
      curl("https://api.example/gzip", {"-H", "X-Api-Key: " + key(), "--compressed"});
  EXPECT_THAT(answer, AllOf(HasSubstr("200 OK"), HasSubstr("X-Api-Key: " + key())));
  EXPECT_THAT(answer, Not(HasSubstr("0123456789")));
}

}
}
