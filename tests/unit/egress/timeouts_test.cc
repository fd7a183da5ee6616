// What has its time, and what becomes of it afterwards.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using namespace std::chrono_literals;
using policy::Reason;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kSilent = "93.184.216.98";

// Waits for the end of the connection that it makes, and says how that came.
constexpr const char* kWait = R"(
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2]))); s.sendall(sys.argv[3].encode().decode('unicode_escape').encode())
if 'half' in sys.argv: s.shutdown(socket.SHUT_WR)
got = b''
try:
  while (part := s.recv(65536)): got += part
  print('end', got)
except ConnectionResetError: print('reset', got)
)";

class Timers : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("example.com", kPublic);
    resolver_.add("silent.example", kSilent);
    settings_.http_proxy = {{ip("100.127.255.1"), 3128}};
  }
  // Takes connections, and answers each line with itself.
  void serve_echo(uint16_t port) {
    serve_python(
        "import socketserver\n"
        "class H(socketserver.StreamRequestHandler):\n"
        "  def handle(self):\n"
        "    for line in self.rfile:\n"
        "      if line == b'GET / HTTP/1.1\\r\\n': line = b'HTTP/1.1 200 OK\\r\\nContent-Length: "
        "2\\r\\n\\r\\nhi'\n"
        "      elif line.strip() and b':' in line or line == b'\\r\\n': continue\n"
        "      self.wfile.write(line); self.wfile.flush()\n"
        "    self.rfile.read(); import time; time.sleep(60)\n"
        "class S(socketserver.ThreadingTCPServer): allow_reuse_address = daemon_threads = True\n"
        "S(('" +
            std::string(kPublic) + "', " + std::to_string(port) + "), H).serve_forever()",
        {ip(kPublic), port});
  }
  // Packets to it are lost.
  void own_silence() {
    ASSERT_EQ(std::system(("ip tuntap add mode tun name silence && ip link set silence up && "
                           "ip route add " +
                           std::string(kSilent) + "/32 dev silence")
                              .c_str()),
              0);
  }
  std::string wait(const std::vector<std::string>& words) {
    std::vector<std::string> argv{"python3", "-c", kWait};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto exit = guest(argv);
    return exit.out + exit.err;
  }
  Event last_end() {
    EXPECT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
    return events_of(EventKind::End).back();
  }
};

TEST_F(Timers, EndAConnectionThatCarriesNothing) {
  serve_echo(7000);
  allow_host("example.com:7000");
  settings_.timeouts.idle = 200ms;
  start_proxy();
  EXPECT_EQ(wait({"example.com", "7000", "hello\\n"}), "reset b'hello\\n'\n");
  EXPECT_EQ(last_end().reason, Reason::TimedOut);
}

TEST_F(Timers, EndAConnectionWithOneEndSooner) {
  serve_echo(7000);
  allow_host("example.com:7000");
  settings_.timeouts.half_closed = 200ms;
  start_proxy();
  EXPECT_EQ(wait({"example.com", "7000", "hello\\n", "half"}), "reset b'hello\\n'\n");
  EXPECT_EQ(last_end().reason, Reason::TimedOut);
}

TEST_F(Timers, EndAnInspectedConnectionByItsOwn) {
  serve_echo(80);
  allow_host("example.com");
  settings_.timeouts.http_idle = 200ms;
  start_proxy();
  EXPECT_THAT(wait({"example.com", "80", "GET / HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n"}),
              AllOf(HasSubstr("reset"), HasSubstr("200 OK"), HasSubstr("hi'")));
  EXPECT_EQ(last_end().reason, Reason::TimedOut);
}

TEST_F(Timers, EndAClientThatSaysNothingFirst) {
  allow_host("example.com");
  settings_.timeouts.first_bytes = 200ms;
  start_proxy();
  EXPECT_EQ(wait({"example.com", "443", "\\x16"}), "reset b''\n");
  EXPECT_THAT(told(), Contains("connect deny timed_out example.com 93.184.216.34 443"));
}

TEST_F(Timers, EndAClientOfTheProxyWhoseHeadDoesNotCome) {
  settings_.timeouts.first_bytes = 200ms;
  start_proxy();
  for (const char* head : {"", "CONN", "CONNECT example.com:443 HTTP/1.1\\r\\nHost: exa"})
    EXPECT_THAT(wait({"100.127.255.1", "3128", head}),
                AllOf(HasSubstr("end b'HTTP/1.1 408"), HasSubstr("timed_out")))
        << head;
  EXPECT_THAT(told(), Contains("connect deny timed_out 100.127.255.1 3128"));
}

TEST_F(Timers, GiveUpOnAServerThatDoesNotAnswer) {
  own_silence();
  allow_host("silent.example:7000");
  allow_host("silent.example");
  settings_.timeouts.connect = 300ms;
  start_proxy();
  EXPECT_EQ(wait({"silent.example", "7000", ""}), "reset b''\n");
  EXPECT_THAT(
      wait({"silent.example", "80", "GET / HTTP/1.0\\r\\nHost: silent.example\\r\\n\\r\\n"}),
      AllOf(HasSubstr("504"), HasSubstr("timed_out")));
  for (const char* port : {"7000", "443"})
    EXPECT_THAT(wait({"100.127.255.1", "3128",
                      "CONNECT silent.example:" + std::string(port) +
                          " HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"}),
                AllOf(HasSubstr("end b'HTTP/1.1 504"), HasSubstr("timed_out")))
        << port;
}

}
}
