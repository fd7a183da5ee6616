// What a guest, or a server, that takes nothing has the kernel keep for it: not more than so much
// for all connections of a sandbox together.
#include <gmock/gmock.h>

#include "rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;

constexpr const char* kPublic = "93.184.216.34";
constexpr uint64_t kMebibyte = 1U << 20;

class Memory : public EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add("example.com", kPublic);
    allow_host("example.com:7000");
    allow_host("example.com:7001");
    // Says as much as it can at 7000, and takes nothing; at 7001 it answers lines.
    serve_python(
        "import socket, threading\n"
        "l = socket.create_server(('93.184.216.34', 7000), backlog=64)\n"
        "e = socket.create_server(('93.184.216.34', 7001))\n"
        "def pour(c):\n"
        "  try: c.sendall(bytes(64 << 20))\n"
        "  except OSError: pass\n"
        "def echo():\n"
        "  c = e.accept()[0]\n"
        "  while (d := c.recv(100)): c.sendall(d)\n"
        "threading.Thread(target=echo, daemon=True).start()\n"
        "while True: threading.Thread(target=pour, args=(l.accept()[0],), daemon=True).start()",
        {ip(kPublic), 7000});
  }
  bool told_of_memory() const {
    const auto ends = events_of(EventKind::End);
    return std::ranges::any_of(ends, [](const Event& event) {
      return event.reason == Reason::ResourceExhausted &&
             event.detail.find("memory") != std::string::npos;
    });
  }
};

TEST_F(Memory, OfConnectionsThatNobodyReadsIsBounded) {
  settings_.limits.memory = 16 * kMebibyte;
  start_proxy();
  const auto client = start_guest({"python3", "-c",
                                   "import socket, sys\n"
                                   "quiet = socket.create_connection(('example.com', 7001))\n"
                                   "kept = [socket.create_connection(('example.com', 7000)) "
                                   "for _ in range(40)]\n"
                                   "sys.stdin.read()\n"
                                   "quiet.sendall(b'hello'); print(quiet.recv(5).decode())"});
  ASSERT_TRUE(eventually([&] { return told_of_memory(); }));
  const Counters then = proxy_->counters();
  EXPECT_LE(then.memory, 16 * kMebibyte);
  EXPECT_GT(then.memory, 0U);
  EXPECT_GT(then.flows_now, 1U);
  client->end_input();
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().out, "hello\n") << client->exit().err;  // it held the least
}

// Both ends have said their last word, and the guest has not taken what it was sent.
class Parting : public Memory {
 protected:
  // A client that reads when its own words have let it, and says how much there was.
  std::unique_ptr<Program> leave(const std::string& until) {
    serve_python(
        "import socket\n"
        "l = socket.create_server(('93.184.216.34', 7002))\n"
        "while True:\n"
        "  c = l.accept()[0]\n"
        "  try:\n"
        "    c.sendall(bytes(24000)); c.shutdown(1)\n"
        "    while c.recv(100): pass\n"
        "  except OSError: pass\n"
        "  c.close()",
        {ip(kPublic), 7002});
    allow_host("example.com:7002");
    start_proxy();
    auto client = start_guest(
        {"python3", "-c",
         "import select, socket, sys\n"
         "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n"
         "s.connect(('example.com', 7002)); s.shutdown(1); n = 0\n" +
             until +
             "\n"
             "try:\n"
             "  while (d := s.recv(65536)): n += len(d)\n"
             "  print(n)\n"
             "except ConnectionResetError: print('reset')"});
    EXPECT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); }));
    EXPECT_EQ(proxy_->counters().flows_now, 0U);
    return client;
  }
};

TEST_F(Parting, CountsUntilWhatWasSentIsTaken) {
  const auto client = leave("sys.stdin.read()");
  ASSERT_TRUE(eventually([&] { return proxy_->counters().memory > 10'000; }));
  client->end_input();
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().out, "24000\n");
  EXPECT_TRUE(eventually([&] { return proxy_->counters().memory == 0; }));
  EXPECT_EQ(events_of(EventKind::End).size(), 1U);
  EXPECT_EQ(events_of(EventKind::End).front().reason, Reason::Allowed);
}

TEST_F(Parting, IsCutShortWhereItHoldsTooMuch) {
  settings_.limits.memory = 1;
  const auto client = leave("p = select.poll(); p.register(s, 0); p.poll()");
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().out, "reset\n");
}

}
}
