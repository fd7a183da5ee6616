// Connections of real clients to real servers.
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kPublic6 = "2606:2800:220:1::1";

class Flows : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("example.com", kPublic);
  }
  // Answers every request with "hello" and the request line, on plain HTTP.
  void serve_http(const std::string& address = kPublic, uint16_t port = 80) {
    const bool v6 = address.find(':') != address.npos;
    serve_python(
        "import http.server, socket\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  protocol_version = 'HTTP/1.1'\n"
        "  def do_GET(self):\n"
        "    body = ('hello ' + self.path).encode()\n"
        "    self.send_response(200); self.send_header('Content-Length', str(len(body)))\n"
        "    self.end_headers(); self.wfile.write(body)\n"
        "class S(http.server.ThreadingHTTPServer):\n"
        "  address_family = socket." +
            std::string(v6 ? "AF_INET6" : "AF_INET") +
            "\n"
            "S(('" +
            address + "', " + std::to_string(port) + "), H).serve_forever()",
        {ip(address), port});
  }
  Program& serve_tls(const std::string& host, const std::string& address = kPublic,
                     uint16_t port = 443) {
    const std::string path = certificate(host);
    return serve({"openssl", "s_server", "-accept", address + ":" + std::to_string(port), "-cert",
                  path, "-key", path + ".key", "-www"},
                 {ip(address), port});
  }
};

TEST_F(Flows, CarriesARequestAndTellsOfIt) {
  serve_http(kPublic, 8080);
  allow_host("example.com:8080");
  start_proxy();
  const auto exit = guest({"curl", "-s", "http://example.com:8080/x"});
  EXPECT_EQ(exit.out, "hello /x") << exit.err;
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_THAT(told(), Contains("connect allow allowed example.com 93.184.216.34 8080").Times(1));
  EXPECT_THAT(told(), Contains("end allow allowed example.com 93.184.216.34 8080").Times(1));
  const Event end = events_of(EventKind::End).at(0);
  EXPECT_GT(end.sent, 50U);
  EXPECT_GT(end.received, 50U);
  EXPECT_EQ(end.flow, events_of(EventKind::Connect).at(0).flow);
  EXPECT_EQ(proxy_->counters().sent, end.sent);
  EXPECT_EQ(proxy_->counters().flows_now, 0U);
}

TEST_F(Flows, RelaysTlsUntouchedToTheNameThatWasResolved) {
  serve_tls("example.com");
  allow_host("example.com");
  start_proxy();
  const auto exit = guest({"curl", "-sS", "--cacert", directory() + "/example.com.pem",
                           "https://example.com/", "-o", "/dev/null", "-w", "%{http_code}"});
  EXPECT_EQ(exit.out, "200") << exit.err;
  EXPECT_THAT(told(), Contains("tls allow allowed example.com 93.184.216.34 443").Times(1));
  EXPECT_THAT(events_of(EventKind::Connect), IsEmpty());
}

TEST_F(Flows, AnswersAnotherServerNameWithAnAlert) {
  Program& server = serve_tls("example.com");
  allow_host("example.com");
  start_proxy();
  const auto exit = guest(
      {"curl", "-sS", "-k", "--connect-to", "evil.test:443:example.com:443", "https://evil.test/"});
  EXPECT_EQ(exit.code, 35);
  EXPECT_THAT(exit.err, HasSubstr("unrecognized name"));
  EXPECT_THAT(told(), Contains("tls deny sni_mismatch example.com 93.184.216.34 443").Times(1));
  EXPECT_FALSE(server.ended());
  EXPECT_EQ(proxy_->counters().sent, 0U);
}

TEST_F(Flows, AnswersAMissingServerNameWithAnAlert) {
  serve_tls("example.com");
  allow_host("example.com");
  start_proxy();
  const auto exit = guest({"openssl", "s_client", "-noservername", "-connect", "example.com:443"});
  EXPECT_THAT(exit.err, HasSubstr("alert"));
  EXPECT_THAT(told(), Contains("tls deny sni_mismatch example.com 93.184.216.34 443"));
}

TEST_F(Flows, TakesTheNameThatIsMeantOfSeveralOnOneAddress) {
  serve_tls("b.hosts.example");
  resolver_.add("a.hosts.example", kPublic);
  resolver_.add("b.hosts.example", kPublic);
  allow_host("*.hosts.example");
  start_proxy();
  guest({"getent", "ahostsv4", "b.hosts.example"});
  guest({"getent", "ahostsv4", "a.hosts.example"});
  const auto exit = guest({"curl", "-sS", "--cacert", directory() + "/b.hosts.example.pem",
                           "--resolve", "b.hosts.example:443:93.184.216.34",
                           "https://b.hosts.example/", "-o", "/dev/null", "-w", "%{http_code}"});
  EXPECT_EQ(exit.out, "200") << exit.err;
  EXPECT_THAT(told(), Contains("tls allow allowed b.hosts.example 93.184.216.34 443"));
}

TEST_F(Flows, ReadsAHelloThatComesByteByByte) {
  serve_tls("example.com");
  allow_host("example.com");
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import ssl, socket\n"
                           "ctx = ssl.create_default_context(cafile='" +
                               directory() +
                               "/example.com.pem')\n"
                               "i, o = ssl.MemoryBIO(), ssl.MemoryBIO()\n"
                               "t = ctx.wrap_bio(i, o, server_hostname='example.com')\n"
                               "try: t.do_handshake()\n"
                               "except ssl.SSLWantReadError: pass\n"
                               "s = socket.create_connection(('example.com', 443))\n"
                               "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
                               "hello = o.read()\n"
                               // Two records, and each byte by itself.
                               "body = hello[5:]\n"
                               "for part in (body[:100], body[100:]):\n"
                               "  for b in hello[:3] + len(part).to_bytes(2, 'big') + part:\n"
                               "    s.send(bytes([b]))\n"
                               "while True:\n"
                               "  try: t.do_handshake(); break\n"
                               "  except ssl.SSLWantReadError: i.write(s.recv(65536))\n"
                               "print(t.version())"});
  EXPECT_EQ(exit.out, "TLSv1.3\n") << exit.err;
}

// Those with a post-quantum key share are longer than a segment, and come in several.
TEST_F(Flows, ReadsAHelloThatIsLongerThanASegment) {
  serve_python(
      "import socket\n"
      "l = socket.create_server(('93.184.216.34', 443), backlog=8)\n"
      "while True:\n"
      "  c = l.accept()[0]; n = 0\n"
      "  while (part := c.recv(65536)): n += len(part)\n"
      "  c.sendall(b'%d bytes' % n); c.close()",
      {ip(kPublic), 443});
  allow_host("example.com");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket, struct
def hello(end, name):
  sni = b'\0\0' + struct.pack('>HHBH', len(name) + 5, len(name) + 3, 0, len(name)) + name
  def made(share):
    extensions = b'\0\x33' + struct.pack('>H', share) + b'k' * share + sni
    body = b'\3\3' + bytes(32) + b'\0' + b'\0\2\x13\1' + b'\1\0' + struct.pack('>H', len(extensions)) + extensions
    return b'\1' + struct.pack('>I', len(body))[1:] + body
  return made(end - len(made(0)) - 5)
def send(end, name, step, records):
  message = hello(end, name); cut = len(message) // records + 1
  wire = b''.join(b'\x16\3\1' + struct.pack('>H', len(p)) + p for p in (message[i:i + cut] for i in range(0, len(message), cut)))
  s = socket.create_connection(('example.com', 443)); s.settimeout(30); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  for i in range(0, len(wire), step): s.send(wire[i:i + step])
  s.shutdown(socket.SHUT_WR); got = b''
  while (part := s.recv(99)): got += part
  return got == b'%d bytes' % len(wire) if name == b'example.com' else got[:1] == b'\x15'
for end, step, records in ((1023, 1, 1), (1024, 1, 1), (1025, 1, 1), (4000, 1, 2), (4000, 4000, 1), (16000, 1000, 3)):
  print(send(end, b'example.com', step, records), send(end, b'evil.test', step, records))
)"});
  EXPECT_EQ(exit.out, "True True\nTrue True\nTrue True\nTrue True\nTrue True\nTrue True\n")
      << exit.err;
  EXPECT_THAT(told(), Contains("tls allow allowed example.com 93.184.216.34 443").Times(6));
  EXPECT_THAT(told(), Contains("tls deny sni_mismatch example.com 93.184.216.34 443"));
}

TEST_F(Flows, ResetsAndTellsOnceWhatNoRuleAdmits) {
  allow_host("example.com");
  start_proxy();
  guest({"getent", "ahostsv4", "example.com"});
  events_.clear();
  const auto before = loop::Clock::now();
  const auto exit =
      guest({"python3", "-c",
             "import socket\n"
             "for to in (('93.184.216.34', 8443), ('1.1.1.1', 443), ('169.254.169.254', 80)):\n"
             "  try: socket.create_connection(to, 5)\n"
             "  except ConnectionRefusedError: print('refused')"});
  EXPECT_EQ(exit.out, "refused\nrefused\nrefused\n") << exit.err;
  EXPECT_LT(loop::Clock::now() - before, std::chrono::seconds(3));
  ASSERT_TRUE(eventually([&] { return events_.size() == 3; }));
  EXPECT_THAT(told(), ElementsAre("connect deny policy_denied example.com 93.184.216.34 8443",
                                  "connect deny policy_denied 1.1.1.1 443",
                                  "connect deny cloud_metadata 169.254.169.254 80"));
  EXPECT_EQ(events_[0].suggestion, "--allow-host example.com:8443");
  EXPECT_EQ(events_[1].suggestion, "--allow-cidr 1.1.1.1:443");
  EXPECT_EQ(events_[2].suggestion, "");
}

TEST_F(Flows, RefusesDatagramsAtOnce) {
  allow_host("example.com");
  start_proxy();
  guest({"getent", "ahostsv4", "example.com"});
  events_.clear();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                           "s.connect(('93.184.216.34', 443)); s.send(b'quic')\n"
                           "s.settimeout(5)\n"
                           "try: s.recv(1)\n"
                           "except OSError as e: print(type(e).__name__, e.errno)"});
  EXPECT_THAT(exit.out, HasSubstr("113"));  // EHOSTUNREACH
  ASSERT_TRUE(eventually([&] { return !events_.empty(); }));
  EXPECT_THAT(told(),
              ElementsAre("connect deny protocol_unsupported example.com 93.184.216.34 443"));
  EXPECT_EQ(events_[0].transport, net::Transport::Udp);
  events_.clear();
  const auto six = guest({"python3", "-c",
                          "import socket\n"
                          "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
                          "s.connect(('2606:2800:21f::1', 443)); s.send(b'quic'); s.settimeout(5)\n"
                          "try: s.recv(1)\n"
                          "except OSError as e: print(e.errno)"});
  EXPECT_EQ(six.out, "13\n") << six.err;  // EACCES
  ASSERT_TRUE(eventually([&] { return !events_.empty(); }));
  EXPECT_THAT(told(), ElementsAre("connect deny policy_denied 2606:2800:21f::1 443"));
}

TEST_F(Flows, TakesAddressesThatARangeOpens) {
  own_address("10.1.2.3");
  serve_http("10.1.2.3", 5000);
  serve_http("10.1.2.3", 5001);
  own_address("fd12::5");
  serve_http("fd12::5", 5000);
  allow_range("10.1.0.0/16:5000");
  allow_range("[fd12::5]:5000");
  start_proxy();
  EXPECT_EQ(guest({"curl", "-s", "-g", "http://[fd12::5]:5000/six"}).out, "hello /six");
  EXPECT_NE(guest({"curl", "-s", "-g", "http://[fd12::6]:5000/"}).code, 0);
  EXPECT_EQ(guest({"curl", "-s", "http://10.1.2.3:5000/"}).out, "hello /");
  EXPECT_NE(guest({"curl", "-s", "http://10.1.2.3:5001/"}).code, 0);
  EXPECT_THAT(told(), Contains("connect deny private_range 10.1.2.3 5001"));
  EXPECT_EQ(events_of(EventKind::Connect).at(0).rule, "allow-cidr [fd12::5]:5000");
}

TEST_F(Flows, WorksOverIpv6AndFallsBackToTheFamilyThatWorks) {
  own_address(kPublic6);
  resolver_.add("six.example", kPublic6);
  serve_http(kPublic6);
  resolver_.add("both.example", "2606:2800:220:1::dead");  // nobody has it
  resolver_.add("both.example", kPublic);
  serve_http();
  allow_host("six.example");
  allow_host("both.example");
  start_proxy();
  EXPECT_EQ(guest({"curl", "-s", "-6", "http://six.example/6"}).out, "hello /6");
  EXPECT_EQ(guest({"curl", "-s", "-6", "http://both.example/4"}).out, "hello /4");
}

TEST_F(Flows, ResetsWhenTheServerRefuses) {
  allow_host("example.com:8080");
  start_proxy();
  const auto exit = guest({"curl", "-sS", "http://example.com:8080/"});
  EXPECT_EQ(exit.code, 56) << exit.err;
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  const Event end = events_of(EventKind::End).at(0);
  EXPECT_EQ(end.reason, Reason::UpstreamUnreachable);
  EXPECT_EQ(end.detail, "Connection refused");
}

// As those of content networks do: each lookup gives other addresses, and each is good.
TEST_F(Flows, FollowsANameWhoseAddressesChange) {
  allow_host("app.example.com:7000");
  start_proxy();
  for (int last = 61; last < 66; ++last) {
    const std::string address = "93.184.216." + std::to_string(last);
    own_address(address);
    resolver_.clear();
    resolver_.add("app.example.com", address, 0);
    serve_python(
        "import socket\n"
        "l = socket.create_server(('" +
            address + "', 7000))\nwhile True:\n  c = l.accept()[0]; c.sendall(b'" + address +
            "'); c.close()",
        {ip(address), 7000});
    EXPECT_EQ(guest({"python3", "-c",
                     "import socket\nprint(socket.create_connection(('app.example.com', 7000), "
                     "60).recv(99).decode())"})
                  .out,
              address + "\n");
  }
}

// The same address serves names that no rule admits.
TEST_F(Flows, PlainHttpIsHeldToItsHostField) {
  resolver_.add("a.hosts.example", kPublic);
  resolver_.add("b.hosts.example", kPublic);
  serve_http();
  allow_host("a.hosts.example");
  allow_host("b.hosts.example");
  start_proxy();
  const auto get = [&](const std::string& host) {
    return guest({"curl", "-s", "-H", "Host: " + host, "http://a.hosts.example/"}).out;
  };
  EXPECT_EQ(guest({"curl", "-s", "http://b.hosts.example/"}).out, "hello /");
  EXPECT_EQ(get("a.hosts.example"), "hello /");
  EXPECT_EQ(get("b.hosts.example"), "hello /");
  EXPECT_THAT(get("other.example"), testing::HasSubstr("authority_mismatch"));
  EXPECT_THAT(told(), Contains("http allow allowed GET b.hosts.example 93.184.216.34 80").Times(2));
  // On one connection there is one host.
  const auto both =
      guest({"curl", "-s", "-H", "Host: a.hosts.example", "http://a.hosts.example/", "--next", "-s",
             "-H", "Host: b.hosts.example", "http://a.hosts.example/"});
  EXPECT_THAT(both.out, testing::HasSubstr("authority_mismatch"));
}

TEST_F(Flows, LetsServersSpeakFirst) {
  serve_python(
      "import socket\n"
      "l = socket.create_server(('93.184.216.34', 2525), backlog=8)\n"
      "while True:\n"
      "  c = l.accept()[0]\n"
      "  try: c.send(b'220 ready\\r\\n'); c.send(b'250 ' + c.recv(100))\n"
      "  except OSError: pass\n"
      "  c.close()",
      {ip(kPublic), 2525});
  allow_host("example.com:2525");
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "s = socket.create_connection(('example.com', 2525)); f = s.makefile()\n"
                           "print(f.readline().strip()); s.send(b'HELO\\r\\n')\n"
                           "print(f.readline().strip())"});
  EXPECT_EQ(exit.out, "220 ready\n250 HELO\n") << exit.err;
  EXPECT_THAT(told(), Contains("connect allow allowed example.com 93.184.216.34 2525"));
}

TEST_F(Flows, ChecksTheServerNameAtOtherPortsToo) {
  serve_tls("example.com", kPublic, 9443);
  allow_host("example.com:9443");
  start_proxy();
  EXPECT_EQ(guest({"curl", "-sS", "-k", "https://example.com:9443/", "-o", "/dev/null"}).code, 0);
  EXPECT_EQ(guest({"curl", "-sS", "-k", "--connect-to", "evil.test:9443:example.com:9443",
                   "https://evil.test:9443/"})
                .code,
            35);
  EXPECT_THAT(told(), Contains("tls deny sni_mismatch example.com 93.184.216.34 9443"));
}

// A client that ends its side still gets its answer, and the other way round.
TEST_F(Flows, PassesHalfClosesOn) {
  serve_python(
      "import socket\n"
      "l = socket.create_server(('93.184.216.34', 7000), backlog=8)\n"
      "while True:\n"
      "  c = l.accept()[0]; got = b''\n"
      "  while (part := c.recv(65536)): got += part\n"
      "  c.sendall(b'%d bytes' % len(got)); c.close()",
      {ip(kPublic), 7000});
  allow_host("example.com:7000");
  start_proxy();
  const auto exit = guest({"sh", "-c", "head -c 300000 /dev/zero | nc -N example.com 7000"});
  EXPECT_EQ(exit.out, "300000 bytes") << exit.err;
}

TEST_F(Flows, PassesResetsOn) {
  serve_python(
      "import socket, struct\n"
      "l = socket.create_server(('93.184.216.34', 7000), backlog=8)\n"
      "while True:\n"
      "  c = l.accept()[0]; c.recv(5)\n"
      "  c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); c.close()",
      {ip(kPublic), 7000});
  allow_host("example.com:7000");
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "s = socket.create_connection(('example.com', 7000)); s.send(b'hello')\n"
                           "try: print(s.recv(1))\n"
                           "except ConnectionResetError: print('reset')"});
  EXPECT_EQ(exit.out, "reset\n") << exit.err;
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_EQ(events_of(EventKind::End).at(0).detail, "connection reset");
}

// Both ways at once, to a reader that takes its time: every byte, in order.
TEST_F(Flows, CarriesMuchToSlowReaders) {
  serve_python(
      "import socket, hashlib, threading, time\n"
      "l = socket.create_server(('93.184.216.34', 7000), backlog=8)\n"
      "def one(c):\n"
      "  h = hashlib.sha256(); n = 0\n"
      "  while (part := c.recv(65536)):\n"
      "    h.update(part); n += len(part)\n"
      "    if n % 50 == 0: time.sleep(0.0005)\n"
      "  c.sendall(h.hexdigest().encode()); c.sendall(bytes(range(256)) * 65536); c.close()\n"
      "while True: threading.Thread(target=one, args=(l.accept()[0],)).start()",
      {ip(kPublic), 7000});
  allow_host("example.com:7000");
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket, hashlib, time\n"
                           "s = socket.create_connection(('example.com', 7000))\n"
                           "data = hashlib.shake_256(b'x').digest(12 << 20)\n"
                           "s.sendall(data); s.shutdown(socket.SHUT_WR); got = b''; n = 0\n"
                           "while (part := s.recv(1 << 16)):\n"
                           "  got += part; n += 1\n"
                           "  if n % 100 == 0: time.sleep(0.001)\n"
                           "print(got[:64].decode() == hashlib.sha256(data).hexdigest(),\n"
                           "      got[64:] == bytes(range(256)) * 65536)"});
  EXPECT_EQ(exit.out, "True True\n") << exit.err;
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_EQ(events_of(EventKind::End).at(0).sent, 12U << 20);
  EXPECT_EQ(events_of(EventKind::End).at(0).received, 64U + (16U << 20));
}

TEST_F(Flows, FollowsAPolicyThatChanges) {
  serve_http();
  start_proxy();
  EXPECT_EQ(guest({"curl", "-s", "http://example.com/"}).code, 6);
  allow_host("example.com");
  proxy_->set_policy(settings_.policy, Mode::Enforce);
  EXPECT_EQ(guest({"curl", "-s", "http://example.com/"}).out, "hello /");
  proxy_->set_policy({}, Mode::Enforce);
  EXPECT_EQ(
      guest({"curl", "-s", "--resolve", "example.com:80:93.184.216.34", "http://example.com/"})
          .code,
      7);
}

TEST_F(Flows, LetsThroughAndTellsInAuditMode) {
  serve_http();
  own_address("10.9.9.9");
  serve_http("10.9.9.9");
  settings_.mode = Mode::Audit;
  start_proxy();
  EXPECT_EQ(guest({"curl", "-s", "http://example.com/"}).out, "hello /");
  EXPECT_EQ(guest({"curl", "-s", "http://93.184.216.34/"}).out, "hello /");
  EXPECT_NE(guest({"curl", "-s", "http://10.9.9.9/"}).code, 0);
  EXPECT_THAT(told(), Contains("connect allow policy_denied audited example.com 93.184.216.34 80"));
  EXPECT_THAT(told(), Contains("connect deny private_range 10.9.9.9 80"));
  EXPECT_EQ(events_of(EventKind::Connect).at(0).suggestion, "--allow-host example.com:80");
  // Back to enforcing, the door is shut again.
  proxy_->set_policy({}, Mode::Enforce);
  EXPECT_EQ(guest({"curl", "-s", "http://93.184.216.34/"}).code, 7);
}

TEST_F(Flows, HoldsTheLimitOfFlows) {
  serve_http();
  settings_.limits.flows = 2;
  allow_host("example.com");
  start_proxy();
  const auto exit = guest({"python3", "-c",
                           "import socket\n"
                           "open_ones = []\n"
                           "def ask():\n"
                           "  try:\n"
                           "    s = socket.create_connection(('example.com', 80))\n"
                           "    s.send(b'GET / HTTP/1.1\\r\\n\\r\\n'); n = len(s.recv(9))\n"
                           "    open_ones.append(s); return n\n"
                           "  except OSError: return 0\n"
                           "print(ask(), ask(), ask()); open_ones[0].close()\n"
                           "import time\n"
                           "for i in range(100):\n"
                           "  if ask(): break\n"
                           "  time.sleep(0.02)\n"
                           "print(i < 99)"});
  EXPECT_EQ(exit.out, "9 9 0\nTrue\n") << exit.err;
  EXPECT_THAT(told(), Contains("connect deny resource_exhausted example.com 93.184.216.34 80"));
}

TEST_F(Flows, HoldsTheRateOfNewFlows) {
  serve_http();
  settings_.limits.flows_per_second = 3;
  allow_host("example.com");
  start_proxy();
  guest({"python3", "-c",
         "import socket\n"
         "for i in range(6):\n"
         "  try: socket.create_connection(('example.com', 80))\n"
         "  except OSError: pass"});
  ASSERT_TRUE(eventually([&] { return proxy_->counters().flows_refused > 0; }));
  EXPECT_THAT(told(), Contains("connect deny rate_limited example.com 93.184.216.34 80"));
}

TEST_F(Flows, EndsWhenTheBytesAreUsedUp) {
  serve_http();
  settings_.limits.total_bytes = 400;
  allow_host("example.com");
  start_proxy();
  guest({"curl", "-s", "http://example.com/", "http://example.com/", "http://example.com/"});
  ASSERT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
  EXPECT_EQ(events_of(EventKind::End).at(0).reason, Reason::ResourceExhausted);
  EXPECT_NE(guest({"curl", "-s", "http://example.com/"}).code, 0);
  EXPECT_THAT(told(), Contains("connect deny resource_exhausted example.com 93.184.216.34 80"));
}

TEST_F(Flows, HoldsTheBandwidth) {
  serve_python(
      "import socket, threading\n"
      "l = socket.create_server(('93.184.216.34', 7000), backlog=8)\n"
      "while True:\n"
      "  c = l.accept()[0]\n"
      "  try: c.sendall(b'x' * (3 << 20)); c.close()\n"
      "  except OSError: pass",
      {ip(kPublic), 7000});
  settings_.limits.receive_bytes_per_second = 1 << 20;
  allow_host("example.com:7000");
  start_proxy();
  const auto before = loop::Clock::now();
  const auto exit = guest({"sh", "-c", "nc -d example.com 7000 | wc -c"});
  EXPECT_EQ(exit.out, "3145728\n") << exit.err;
  // The first second's worth comes at once.
  EXPECT_GT(loop::Clock::now() - before, std::chrono::milliseconds(1900));
}

TEST_F(Flows, HoldsTheBandwidthOfWhatIsSentToo) {
  Program& server = serve_python(
      "import socket\n"
      "l = socket.create_server(('93.184.216.34', 7000), backlog=8)\n"
      "while True:\n"
      "  c = l.accept()[0]; n = 0\n"
      "  while (part := c.recv(65536)): n += len(part)\n"
      "  c.close()\n"
      "  if n: print(n, flush=True)\n",
      {ip(kPublic), 7000});
  settings_.limits.send_bytes_per_second = 1 << 20;
  allow_host("example.com:7000");
  start_proxy();
  const auto before = loop::Clock::now();
  EXPECT_EQ(guest({"sh", "-c", "head -c 3145728 /dev/zero | nc -N example.com 7000"}).code, 0);
  EXPECT_TRUE(eventually([&] { return server.exit().out == "3145728\n"; }));
  EXPECT_GT(loop::Clock::now() - before, std::chrono::milliseconds(1900));
}

TEST_F(Flows, OutlivesAWantOfDescriptors) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "the sanitizer of the same build looks at objects through pipes, which it cannot make";
#endif
  serve_http();
  allow_host("example.com");
  start_proxy();
  const auto client =
      start_guest({"python3", "-c",
                   "import socket, sys, time\n"
                   "def ask():\n"
                   "  try:\n"
                   "    s = socket.create_connection(('example.com', 80), 5)\n"
                   "    s.send(b'GET / HTTP/1.1\\r\\n\\r\\n'); n = len(s.recv(9))\n"
                   "    kept.append(s); return n\n"
                   "  except OSError as e: return type(e).__name__\n"
                   "kept = []; sys.stdin.read()\n"
                   "print({ask() for i in range(30)} >= {9, 'ConnectionResetError'},\n"
                   "      len(kept) > 2)\n"
                   "for s in kept: s.close()\n"
                   "for i in range(200):\n"
                   "  if ask() == 9: break\n"
                   "  time.sleep(0.02)\n"
                   "print(i < 199)"});
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit scarce = old;
  scarce.rlim_cur = static_cast<rlim_t>(::dup(0)) + 12;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &scarce), 0);
  client->end_input();
  EXPECT_TRUE(eventually([&] { return client->ended(); }));
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(client->exit().out, "True True\nTrue\n") << client->exit().err;
}

// Ten thousand have to fit into 120 MiB.
TEST_F(Flows, HoldsLittleMemoryForIdleOnes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  constexpr size_t kFlows = 2000;
  serve_python(
      "import socket\n"
      "l = socket.create_server(('93.184.216.34', 7000), backlog=4096); kept = []\n"
      "while True:\n"
      "  c = l.accept()[0]; kept.append(c); c.send(b'x')",
      {ip(kPublic), 7000});
  settings_.limits.flows = settings_.limits.flows_per_second = 0;
  allow_host("example.com:7000");
  start_proxy();
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    size_t pages = 0;
    file >> pages >> pages;
    return pages * 4096;
  };
  const size_t before = resident();
  const auto client = start_guest({"python3", "-c",
                                   "import socket, sys\n"
                                   "kept = []\n"
                                   "for i in range(2000):\n"
                                   "  s = socket.create_connection(('93.184.216.34' if i else "
                                   "'example.com', 7000)); kept.append(s)\n"
                                   "  s.send(b'y'); s.recv(1)\n"
                                   "print('up', flush=True); sys.stdin.read()"});
  ASSERT_TRUE(eventually([&] { return client->exit().out == "up\n" || client->ended(); }));
  EXPECT_EQ(proxy_->counters().flows_now, kFlows) << client->exit().err;
  const size_t each = (resident() - before) / kFlows;
  EXPECT_LT(each, 12U * 1024);
  RecordProperty("bytes_each", static_cast<int>(each));
  std::printf("%zu bytes for each idle flow\n", each);
}

TEST_F(Flows, ForgetsEverythingWhenReset) {
  serve_http();
  allow_host("example.com");
  start_proxy();
  const auto client =
      start_guest({"python3", "-c",
                   "import socket\n"
                   "s = socket.create_connection(('example.com', 80))\n"
                   "s.send(b'GET / HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n'); s.recv(9)\n"
                   "print('up', flush=True)\n"
                   "try:\n"
                   "  while s.recv(99): pass\n"
                   "except ConnectionResetError: print('reset')"});
  ASSERT_TRUE(eventually([&] { return client->exit().out == "up\n"; }));
  proxy_->reset();
  EXPECT_EQ(proxy_->counters().flows_now, 0U);
  EXPECT_EQ(proxy_->counters().pins, 0U);
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().out, "up\nreset\n");
}

}
}
