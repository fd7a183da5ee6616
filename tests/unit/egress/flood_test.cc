// What one guest throws at its link stays its own affair: another sandbox of the same host works on
// meanwhile, and so does this one afterwards. The frames come as they are, without the gate that a
// monitor has before them.
#include <array>
#include <fstream>
#include <sstream>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "rig.h"

namespace mvm::egress {
namespace {

constexpr const char* kPublic = "93.184.216.34";

// At most so many frames, and so long. Every kind that there is no answer to, and some that there
// are.
constexpr const char* kFlood = R"(
import os, socket, struct, time
MAC, GATEWAY = bytes.fromhex('026d766d0002'), bytes.fromhex('026d766d0001')
def total(data):
  data += b'\0' * (len(data) % 2); n = sum(struct.unpack('!%dH' % (len(data) // 2), data))
  while n >> 16: n = (n & 0xffff) + (n >> 16)
  return ~n & 0xffff
def ip4(protocol, body, to, source='100.127.255.2', flags=0x4000, length=None):
  head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(body) if length is None else length, 0, flags, 64, protocol, 0,
                     socket.inet_aton(source), socket.inet_aton(to))
  return b'\x08\0' + head[:10] + struct.pack('!H', total(head)) + head[12:] + body
def ip6(protocol, body, to, source):
  pair = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
  if protocol == 58: body = body[:2] + struct.pack('!H', total(pair + struct.pack('!II', len(body), 58) + body)) + body[4:]
  return b'\x86\xdd' + struct.pack('!IHBB', 6 << 28, len(body), protocol, 255) + pair + body
def tcp(port, to, flags=2):
  segment = struct.pack('!HHIIBBHHH', os.urandom(1)[0] << 8 | 5, port, 1, 0, 0x50, flags, 65535, 0, 0)
  pair = socket.inet_aton('100.127.255.2') + socket.inet_aton(to) + struct.pack('!HH', 6, len(segment))
  return ip4(6, segment[:16] + struct.pack('!H', total(pair + segment)) + segment[18:], to)
def arp(sender): return b'\x08\x06' + struct.pack('!HHBBH', 1, 0x0800, 6, 4, 1) + MAC + sender + bytes(6) + socket.inet_aton('100.127.255.1')
def solicit(source): return ip6(58, b'\x87' + bytes(7) + socket.inet_pton(socket.AF_INET6, 'fd6d:766d::1') + b'\1\1' + MAC, 'fd6d:766d::1', source)
frames = []
for i in range(400):
  low = struct.pack('!H', i)
  body = [tcp(443, '93.184.216.34'), tcp(i + 1, '6.6.6.6'), tcp(i + 1, '93.184.216.34', 16),
          ip4(17, struct.pack('!HHHH', 9, i + 1, 8, 0), '8.8.8.8'), ip4(17, struct.pack('!HHHH', 9, 53, 40, 0) + os.urandom(32), '8.8.8.8'),
          ip4(1, b'\x08\0\xf7\xff' + bytes(4), '100.127.255.1'), ip4(6, os.urandom(20), '1.2.3.4', '10.1.%d.%d' % (low[0], low[1])),
          ip4(6, os.urandom(20), '1.2.3.4', flags=0x2000 | i), ip4(17, os.urandom(8), '1.2.3.4', length=9), ip4(17, os.urandom(8), '1.2.3.4', length=60000),
          arp(b'\x0a\1' + low), arp(b'\x64\x7f' + low), arp(socket.inet_aton('100.127.255.2')),
          solicit('fe80::%x' % (i + 9)), solicit('fd6d:766d::%x' % (i + 9)), solicit('fd6d:766d::2'),
          b'\x81\0\0\5\x08\0' + os.urandom(40), b'\0\x10' + os.urandom(30), b'\x86\xdd' + os.urandom(60), b'\x08\0' + os.urandom(50)]
  for part in body:
    frames.append(GATEWAY + MAC + part)
    if i % 50 == 0: frames.append(b'\xff' * 6 + os.urandom(6) + part)
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); s.setblocking(False)
print('begun', flush=True)
end = time.monotonic() + 6; sent = 0
while time.monotonic() < end and sent < 1000000:
  for frame in frames:
    try: s.send(frame); sent += 1
    except OSError: pass
print(sent)
)";

size_t memory(std::string_view which) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kibibytes = 0;
    if (word == which && status >> kibibytes) return kibibytes;
  }
  return 0;
}

class Flood : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (!IsSkipped()) open();
  }
  // A server that a rule admits, and the proxy.
  void open() {
    own_address(kPublic);
    resolver_.add("example.com", kPublic, 1);
    serve_python(
        "import http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    self.send_response(200); self.end_headers(); self.wfile.write(b'hello')\n"
        "http.server.ThreadingHTTPServer(('93.184.216.34', 80), H).serve_forever()",
        {ip(kPublic), 80});
    allow_host("example.com");
    start_proxy();
  }
  bool works() {
    const auto exit = guest({"curl", "-sS", "-m", "30", "http://example.com/"});
    if (exit.out != "hello") std::fputs(exit.err.c_str(), stderr);
    return exit.out == "hello";
  }
};

// The other sandbox: a process with a proxy, a link and a guest of its own.
class Flooded : public Flood {
 public:
  void TestBody() override {}
  // Says "begun" while it lasts and then how it went.
  void run(int report) {
    if (::unshare(CLONE_NEWNET) != 0 ||
        std::system("ip link set lo up && ip addr add 198.41.0.4/32 dev lo") != 0)  // NOLINT
      return;
    SetUp();
    const bool before = works();
    const size_t resident = memory("VmRSS:");
    std::ofstream("/proc/self/clear_refs") << "5";  // forgets the peak of before
    const auto flood = start_guest({"python3", "-c", kFlood});
    flood->end_input();
    eventually([&] { return !flood->exit().out.empty(); });
    sys::write_all(report, as_bytes("begun\n"));
    eventually([&] { return flood->ended(); });
    const size_t grown = memory("VmHWM:") - resident;
    const size_t events = events_.size();
    const bool after = works();
    sys::write_all(report,
                   as_bytes(std::to_string(static_cast<int>(before)) + " " +
                            std::to_string(static_cast<int>(after)) + " " + std::to_string(grown) +
                            " " + std::to_string(events) + " " + flood->exit().out.substr(6)));
    TearDown();
  }
};

TEST_F(Flood, OfOneSandboxIsNoMatterToAnother) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      Flooded().run(theirs.get());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the other sandbox: %s\n", error.what());
    }
    std::_Exit(0);
  }
  theirs.reset();
  std::string said;
  bool over = false;
  const loop::Watch watch = loop_.watch(ours.get(), EPOLLIN, [&](uint32_t) {
    std::array<char, 256> text{};
    const ssize_t got = ::read(ours.get(), text.data(), text.size());
    if (got > 0)
      said.append(text.data(), static_cast<size_t>(got));
    else
      over = true;
  });
  EXPECT_TRUE(works());
  ASSERT_TRUE(eventually([&] { return over || said == "begun\n"; }));
  int meanwhile = 0;
  while (said == "begun\n" && !over && works()) ++meanwhile;
  EXPECT_GE(meanwhile, 5);
  EXPECT_TRUE(eventually([&] { return over; }));
  ::waitpid(child, nullptr, 0);
  std::istringstream words(said);
  std::string begun;
  int before = 0;
  int after = 0;
  size_t grown = SIZE_MAX;
  size_t events = SIZE_MAX;
  size_t sent = 0;
  ASSERT_TRUE(words >> begun >> before >> after >> grown >> events >> sent) << said;
  std::printf("%d requests beside %zu frames, for which %zu KiB and %zu events\n", meanwhile, sent,
              grown, events);
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  EXPECT_GT(sent, 10'000U);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(grown, 16U * 1024);
#endif
  EXPECT_LT(events, 2U * 256 * 30);
}

}
}
