// What a server may cost that a rule admits: floods that never come to an answer, and answers that
// nobody reads.
#include <sstream>

#include "http2_rig.h"

namespace mvm::egress {
namespace {

using policy::Reason;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Takes a connection and its first request; `serve` does what comes then.
constexpr const char* kRawServer = R"(
import select, socket, ssl, struct, sys
def frame(kind, flags, stream, body=b''):
  return struct.pack('>I', len(body))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + body
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[2], sys.argv[2] + '.key'); c.set_alpn_protocols(['h2'])
l = socket.create_server((sys.argv[1], 443))
def accept(requests=1):
  while True:
    try:
      s = c.wrap_socket(l.accept()[0], server_side=True); got = b''
      s.sendall(frame(4, 0, 0))
      while got.count(b'\x01\x05') + got.count(b'\x01\x25') < requests: got += s.recv(65536)
      return s
    except OSError: pass
)";

class Http2Servers : public Http2 {
 protected:
  void SetUp() override {
    Http2::SetUp();
    if (!IsSkipped()) allow_endpoint("* https://api.example/**");
  }
  Program& serve_raw(const std::string& what) {
    return serve({"/usr/bin/python3", "-u", "-c", kRawServer + what, kPublic, pem_},
                 {ip(kPublic), 443});
  }
};

TEST_F(Http2Servers, ThatCostAndMoveNothingAreCutOff) {
  const struct {
    const char* name;
    const char* begin;   // in Python
    const char* frames;  // and what comes behind it, without an end
  } floods[] = {
      {"pings", "b''", "frame(6, 0, 0, bytes(8))"},
      {"answers to pings", "b''", "frame(6, 1, 0, bytes(8))"},
      {"settings", "b''", "frame(4, 0, 0)"},
      {"windows", "b''", "frame(8, 0, 0, struct.pack('>I', 1))"},
      {"priorities", "b''", "frame(2, 0, 1, bytes(5))"},
      {"unknown frames", "b''", "frame(0x42, 0, 0)"},
      {"resets", "b''", "frame(3, 0, 1, bytes(4))"},
      {"promises", "b''", "frame(5, 4, 1, struct.pack('>I', 2) + b'\\x82')"},
      {"interim answers", "b''", "frame(1, 4, 1, b'\\x08\\x03103')"},
      {"continuations", "frame(1, 0, 1, b'\\x88')",
       "frame(9, 0, 1, b'\\x00\\x01x\\x64' + b'y' * 100)"},
      {"empty data", "frame(1, 4, 1, b'\\x88')", "frame(0, 0, 1)"},
      {"padding alone", "frame(1, 4, 1, b'\\x88')", "frame(0, 8, 1, b'\\x03' + bytes(3))"},
  };
  std::string table;
  for (const auto& flood : floods)
    table += std::string("(") + flood.begin + ", " + flood.frames + "), ";
  Program& server = serve_raw("for begin, flood in [" + table + R"(]:
  s = accept(); sent = 0
  try:
    s.sendall(begin)
    while sent < 40_000_000: s.sendall(flood * 1000); sent += len(flood) * 1000
  except OSError: pass
  print(sent); s.close()
)");
  start_proxy();
  for (const auto& flood : floods) {
    events_.clear();
    const auto exit = curl({"https://api.example/", "-w", "%{http_code}"});
    // Before the answer has begun the client is told; afterwards it is cut off.
    if (exit.code == 0)
      EXPECT_THAT(exit.out, AllOf(HasSubstr("502"), HasSubstr("its answer is no HTTP/2")))
          << flood.name;
    else
      EXPECT_THAT(exit.out, AnyOf("000", "103", "200")) << flood.name << exit.err;
    EXPECT_TRUE(eventually([&] { return !events_of(EventKind::End).empty(); })) << flood.name;
    EXPECT_EQ(events_of(EventKind::End).at(0).reason, Reason::UpstreamUnreachable) << flood.name;
  }
  ASSERT_TRUE(eventually([&] { return server.ended(); }));
  // What the kernels of both sides hold on the way is in it.
  std::istringstream sent(server.exit().out);
  for (const auto& flood : floods) {
    size_t bytes = SIZE_MAX;
    sent >> bytes;
    EXPECT_LT(bytes, 20'000'000U) << flood.name;
  }
}

// One stream pays, byte by byte, for heads without end on the other. A client that does not read
// stops the server, and one that reads again has everything.
TEST_F(Http2Servers, WaitForAClientThatDoesNotRead) {
  Program& server = serve_raw(R"(
s = accept(2); sent = 0
long = frame(1, 4, 1, b'\x08\x03103' + b'\x00\x01x\x7f\xc1\x3d' + b'y' * 8000)
part = long * 4 + frame(0, 0, 3, b'z')
s.sendall(frame(1, 4, 3, b'\x88')); s.setblocking(False)
# Until nobody takes more of it for a second.
view = memoryview(part); parts = 0
while parts < 2000:
  try: view = view[s.send(view):]
  except ssl.SSLWantWriteError:
    if not select.select([], [s], [], 1)[1]: break
  except ssl.SSLWantReadError: pass
  if not view: view = memoryview(part); parts += 1
print(parts, flush=True); s.setblocking(True)
s.sendall(view); parts += 1
s.sendall(frame(1, 5, 1, b'\x89') + frame(0, 1, 3)); print(parts, flush=True)
while s.recv(65536): pass
)");
  start_proxy();
  const auto client = start_guest({"/usr/bin/python3", "-u", "-c", kHttp2Client + std::string(R"(
c = Client(); a = c.ask('/a'); b = c.ask('/b'); print('asked', flush=True)
sys.stdin.read()
while not (c.got[a]['end'] and c.got[b]['end']): c.turn()
print(len(c.got[a]['interim']), c.got[a]['status'], len(c.got[b]['body']))
)"),
                                   authority_});
  ASSERT_TRUE(eventually([&] { return server.exit().out.ends_with('\n'); }));
  const size_t stalled = std::stoul(server.exit().out);
  EXPECT_LT(stalled, 1000U);  // of 32 KB each: what the kernels of both sides hold
  client->end_input();
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  std::istringstream parts(server.exit().out);
  size_t all = 0;
  parts >> all >> all;
  EXPECT_EQ(client->exit().out,
            "asked\n" + std::to_string(4 * all) + " 204 " + std::to_string(all) + "\n")
      << client->exit().err;
}

}
}
