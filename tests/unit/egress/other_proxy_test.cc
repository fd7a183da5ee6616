// Tunnels through a proxy of somebody else's, which a rule names.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using ::testing::Contains;

constexpr const char* kPublic = "93.184.216.34";

class OtherProxy : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("proxy.example", kPublic);
  }
};

// At the ports that proxies are at, too, where what a rule admits is relayed unread.
TEST_F(OtherProxy, LeadsWhereRulesLead) {
  Program& proxy = serve_python(R"(
import select, socket, threading
ls = [socket.create_server(('93.184.216.34', port)) for port in (8080, 3128)]
def one(c):
  head = b''
  while not head.endswith(b'\r\n\r\n') and (part := c.recv(1)): head += part
  if head: print(head.split(b'\r\n')[0].decode(), flush=True)
  try:
    if head.startswith(b'CONNECT '): c.sendall(b'HTTP/1.1 200 OK\r\n\r\n'); c.sendall(c.recv(99)[::-1])
    else: c.sendall(b'HTTP/1.1 200 OK\r\n\r\n' + c.recv(99)[::-1])
  except OSError: pass
  c.close()
while True:
  for l in select.select(ls, [], [])[0]: threading.Thread(target=one, args=(l.accept()[0],)).start()
)",
                                {ip(kPublic), 3128});
  allow_host("proxy.example:8080");
  allow_host("proxy.example:3128");
  allow_host("other.example");
  allow_endpoint("GET https://api.example/v1/**");
  start_proxy();
  // A line for each, with what is sent in one piece and byte by byte.
  const auto exit = guest({"python3", "-c", R"(
import socket
def ask(port, data, piece):
  s = socket.create_connection(('proxy.example', port)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); got = b''
  try:
    for i in range(0, len(data), piece): s.sendall(data[i:i + piece])
    while (part := s.recv(999)): got += part
  except OSError: got += b' RESET'
  return got.split()[1].decode() + ' ' + got.split()[-1].decode()[:3]
for port in (8080, 3128):
  for piece in (999, 1):
    for to in ('evil.test:443', '6.6.6.6:443', '10.0.0.1:443', 'api.example:443', 'other.example:22', '169.254.169.254:80', '[::1]:80', 'nonsense'):
      said = ask(port, b'CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n' % to.encode(), piece)
      if not said.startswith('403'): print(to, 'by', port, said)
    print(ask(port, b'CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\nabc', piece))
print(ask(8080, b'CONNECTED\r\n\r\nxyz', 999))
)"});
  EXPECT_EQ(exit.out, "200 cba\n200 cba\n200 cba\n200 cba\n200 zyx\n") << exit.err;
  std::string reached;
  for (int i = 0; i < 4; ++i) reached += "CONNECT other.example:443 HTTP/1.1\n";
  EXPECT_TRUE(eventually([&] { return proxy.exit().out.size() > reached.size(); }));
  EXPECT_EQ(proxy.exit().out, reached + "CONNECTED\n");  // what begins like one is none
  EXPECT_THAT(told(), Contains("connect deny policy_denied evil.test 443"));
  EXPECT_THAT(told(), Contains("connect deny protocol_unsupported api.example 443"));
}

// One that says no, and goes on listening: asked again on the same connection, for anything, it
// might say yes. Its client connects again, where it is judged again.
TEST_F(OtherProxy, IsAskedOnceAConnection) {
  Program& proxy = serve_python(R"(
import socket, threading
l = socket.create_server(('93.184.216.34', 8080))
def one(c):
  f = c.makefile('rb')
  try:
    while (line := f.readline()):
      print(line.decode().strip(), flush=True); auth = False
      while (field := f.readline().strip()): auth = auth or field.startswith(b'Proxy-Authorization')
      if auth: c.sendall(b'HTTP/1.1 200 OK\r\n\r\nhello')
      else: c.sendall(b'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nno')
  except OSError: pass
while True: threading.Thread(target=one, args=(l.accept()[0],)).start()
)",
                                {ip(kPublic), 8080});
  allow_host("proxy.example:8080");
  allow_host("other.example");
  start_proxy();
  const auto exit = guest({"python3", "-c", R"(
import socket
ask = b'CONNECT %s:443 HTTP/1.1\r\nHost: x\r\n%s\r\n'
yes = b'Proxy-Authorization: Basic eDp5\r\n'
def say(first, then=b''):
  s = socket.create_connection(('proxy.example', 8080)); s.settimeout(30); got = b''
  s.sendall(first)
  try:
    while not got.endswith((b'\r\n\r\n', b'hello')): got += s.recv(999)
    if then: s.sendall(then)
    while not got.endswith(b'hello') and (part := s.recv(999)): got += part
  except OSError: pass
  return got.decode()
print(say(ask % (b'other.example', b''), ask % (b'evil.test', yes)))
print(say(ask % (b'other.example', b'') + ask % (b'evil.test', yes)))
print(say(ask % (b'other.example', yes)))
)"});
  const std::string no =
      "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n"
      "Connection: close\r\n\r\n\n";
  EXPECT_EQ(exit.out, no + no + "HTTP/1.1 200 OK\r\n\r\nhello\n") << exit.err;
  const std::string asked = "CONNECT other.example:443 HTTP/1.1\n";
  EXPECT_EQ(proxy.exit().out, asked + asked + asked);
}

}
}
