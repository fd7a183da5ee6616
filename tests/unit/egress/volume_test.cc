// What streams is not kept: a gibibyte passes each way in constant memory, and an event is there
// before the server has thought of the next one.
#include <fstream>

#include "http2_rig.h"

namespace mvm::egress {
namespace {

// Measured: 1. A proxy that keeps what it passes on would have 1024.
constexpr size_t kMostMebibytes = 4;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEEDS_ITS_OWN_MEMORY() GTEST_SKIP() << "what was freed is kept, to find late uses"
#else
#define NEEDS_ITS_OWN_MEMORY() static_cast<void>(0)
#endif

// Speaks both versions. GET gives as many mebibytes as the path says, POST says how many bytes
// came; /events is an answer without an end, to which each /next adds one event.
constexpr const char* kServer = R"(
const http2 = require('http2'), fs = require('fs'), {Readable} = require('stream');
const [address, pem] = process.argv.slice(1), piece = Buffer.alloc(65536, 'x');
let events = null, number = 0;
http2.createSecureServer({cert: fs.readFileSync(pem), key: fs.readFileSync(pem + '.key'), allowHTTP1: true}, (q, r) => {
  q.on('error', () => {});
  if (q.method == 'POST') {
    let got = 0;
    q.on('data', d => got += d.length); q.on('end', () => r.end(q.httpVersion + ' ' + got));
  } else if (q.url == '/events') {
    r.writeHead(200, {'content-type': 'text/event-stream'}); r.write(': hello\n\n'); events = r;
  } else if (q.url == '/next') {
    events.write('data: ' + number++ + '\n\n'); r.end();
  } else if (q.url == '/last') {
    events.end(); r.end();
  } else {
    let left = +q.url.slice(1) * 16;
    new Readable({read() { this.push(left-- > 0 ? piece : null); }}).pipe(r);
  }
}).listen(443, address);
)";

size_t memory(std::string_view which) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kibibytes = 0;
    if (word == which && status >> kibibytes) return kibibytes;
  }
  ADD_FAILURE() << "no " << which;
  return 0;
}

class Volume : public Http2, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Http2::SetUp();
    if (IsSkipped()) return;
    serve({"node", "-e", kServer, kPublic, pem_}, {ip(kPublic), 443});
    allow_endpoint("* https://api.example/**");
    start_proxy();
  }
  std::string version() const { return GetParam() == "--http2" ? "2" : "1.1"; }
  // How much this process, which is the proxy, grows meanwhile at its largest.
  template <typename Work>
  size_t mebibytes_for(const Work& work) {
    const size_t before = memory("VmRSS:");
    std::ofstream("/proc/self/clear_refs") << "5";  // forgets the peak of before
    work();
    return (memory("VmHWM:") - before + 1023) / 1024;
  }
};

TEST_P(Volume, AGibibyteComesInConstantMemory) {
  NEEDS_ITS_OWN_MEMORY();
  const auto get = [this](const std::string& mebibytes) {
    const auto exit = curl({GetParam(), "https://api.example/" + mebibytes, "-o", "/dev/null",
                            "--limit-rate", "200M",  // the server is faster
                            "-w", "%{http_version} %{size_download}"});
    EXPECT_EQ(exit.out, version() + " " + std::to_string(std::stoul(mebibytes) << 20)) << exit.err;
  };
  get("16");  // whatever is there to be made once, is
  EXPECT_LE(mebibytes_for([&] { get("1024"); }), kMostMebibytes);
}

TEST_P(Volume, AGibibyteLeavesInConstantMemory) {
  NEEDS_ITS_OWN_MEMORY();
  const auto put = [this](const std::string& mebibytes) {
    const auto exit = guest(
        {"sh", "-c",
         R"(head -c "$1M" /dev/zero | curl -sS --cacert "$2" "$3" -X POST -T - https://api.example/)",
         "sh", mebibytes, authority_, GetParam()});
    EXPECT_EQ(exit.out, (GetParam() == "--http2" ? "2.0 " : "1.1 ") +
                            std::to_string(std::stoul(mebibytes) << 20))
        << exit.err;
  };
  put("16");
  EXPECT_LE(mebibytes_for([&] { put("1024"); }), kMostMebibytes);
}

// The server makes an event only when the one before has arrived, so nothing can wait for more.
TEST_P(Volume, EventsArriveOneByOne) {
  const auto client = start_guest(
      {"curl", "-sSN", GetParam(), "--cacert", authority_, "https://api.example/events"});
  std::string expected = ": hello\n\n";
  const auto arrived = [&] { return eventually([&] { return client->exit().out == expected; }); };
  ASSERT_TRUE(arrived()) << client->exit().err;
  for (int number = 0; number < 20; ++number) {
    const auto next = curl({GetParam(), "https://api.example/next"});
    ASSERT_EQ(next.code, 0) << next.err;
    expected += "data: " + std::to_string(number) + "\n\n";
    ASSERT_TRUE(arrived()) << client->exit().out;
  }
  EXPECT_EQ(curl({GetParam(), "https://api.example/last"}).code, 0);
  ASSERT_TRUE(eventually([&] { return client->ended(); }));
  EXPECT_EQ(client->exit().code, 0) << client->exit().err;
}

INSTANTIATE_TEST_SUITE_P(Versions, Volume, ::testing::Values("--http1.1", "--http2"),
                         [](const auto& made) {
                           return std::string(made.param == "--http2" ? "Http2" : "Http1");
                         });

}
}
