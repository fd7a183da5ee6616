// Metering of exchanges over HTTP/2, with real clients and a real server of it.
#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/metering/filter.h"
#include "mvm/sys/file.h"

#include "unit/egress/rig.h"

namespace mvm::metering {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kHost = "api.openai.com";

// Each answer is what the request's path says behind "/v1/", up to its "/chat/completions": "json",
// "sse", "half" (of the events, and then nothing), "reset" (likewise at once, and the stream
// is reset when the request is whole); "flaky" is refused the first time. Tells streams that are
// reset.
constexpr const char* kServer = R"(
const http2 = require('http2'), fs = require('fs');
const [address, port, pem, fixtures] = process.argv.slice(1);
const read = name => fs.readFileSync(fixtures + '/' + name);
let asked = 0;
const server = http2.createSecureServer({cert: fs.readFileSync(pem), key: fs.readFileSync(pem + '.key')});
server.on('stream', (s, h) => {
  const [, how] = h[':path'].slice(1).split('/');
  s.on('error', () => {});
  s.on('aborted', () => console.log('aborted ' + s.rstCode));
  const half = () => {
    s.respond({':status': 200, 'content-type': 'text/event-stream'}); s.write(read('openai-chat.sse').subarray(0, 600));
  };
  if (how == 'reset') half();
  s.on('data', () => {});
  s.on('end', () => {
    if (how == 'reset') return s.destroy(new Error('reset'));
    if (how == 'half') return half();
    const flaky = how == 'flaky' && asked++ == 0;
    s.respond({':status': flaky ? 429 : 200, 'content-type': how == 'sse' ? 'text/event-stream' : 'application/json'});
    s.end(read(flaky ? 'openai-error.json' : how == 'sse' ? 'openai-chat.sse' : 'openai-chat.json'));
  });
});
server.on('sessionError', () => {});
server.listen(+port, address);
)";

class MeteringOfHttp2 : public egress::EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add(kHost, kPublic);
    const std::string path = certificate(kHost);
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    server_ = &serve({"node", "-e", kServer, kPublic, "443", path, MVM_FIXTURES},
                     {egress::ip(kPublic), 443});
    ledger_.emplace(meter::Terms{.on_unknown = meter::OnUnknown::Estimate}, meter::Account{},
                    [](const meter::Record&, const meter::Account&) { return true; });
    allow_host(kHost);
    const std::vector<std::string> words{"openai"};
    const meter::Catalogue catalogue(words);
    settings_.policy.inspect = inspections(catalogue);
    settings_.filters.push_back(std::make_shared<MeterSource>(
        catalogue, false, *ledger_,
        MeterSource::Watcher{[this](const UsageNotice& notice) { notices_.push_back(notice); },
                             {}}));
    start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }
  // All streams of one connection.
  egress::Program::Exit ask(const std::string& code) {
    return guest({"node", "-e", std::string(R"(
const http2 = require('http2'), fs = require('fs');
const session = http2.connect('https://api.openai.com', {ca: fs.readFileSync(process.argv[1])});
const ask = (how, got = () => {}) => new Promise(done => {
  const s = session.request({':method': 'POST', ':path': `/v1/${how}/chat/completions`, 'content-type': 'application/json'});
  let status, size = 0;
  s.on('response', h => status = h[':status']); s.on('data', d => { size += d.length; got(s); });
  s.on('error', () => {}); s.on('close', () => { console.log(how, status, size > 0, s.rstCode); done(status); });
  if (how == 'reset') s.once('data', () => s.end(process.argv[2])); else s.end(process.argv[2]);
});
(async () => { )") + code + " session.close(); })();",
                  authority_, kBody});
  }
  meter::Counts counted() const { return ledger_->account().sum(); }
  bool settled() {
    return eventually([&] { return ledger_->account().open.empty(); });
  }

  static constexpr const char* kBody = R"({"model":"gpt-4o","stream":true,"max_tokens":100})";
  static constexpr uint64_t kMost = 100 + std::string_view(kBody).size();
  std::optional<meter::Ledger> ledger_;
  std::vector<UsageNotice> notices_;
  egress::Program* server_ = nullptr;
  std::string authority_;
};

TEST_F(MeteringOfHttp2, CountsEachStreamOfAConnection) {
  const auto exit = ask("await Promise.all([ask('json'), ask('sse'), ask('json')]);");
  EXPECT_THAT(exit.out, HasSubstr("sse 200 true 0\n")) << exit.err;
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().requests, 3U);
  EXPECT_EQ(counted().unknown, 0U);
  EXPECT_EQ(counted().total, 29U + 21U + 29U);
}

// Bug 73. What a stream used that the client gives up is unknown, and at most what it allowed; the
// connection's other streams are counted as ever.
TEST_F(MeteringOfHttp2, AStreamThatTheClientResetsIsUnknownAndBounded) {
  const auto exit =
      ask("await ask('half', s => s.close(http2.constants.NGHTTP2_CANCEL)); await ask('json');");
  EXPECT_EQ(exit.out, "half 200 true 8\njson 200 true 0\n") << exit.err;
  ASSERT_TRUE(settled());
  EXPECT_TRUE(
      eventually([&] { return server_->exit().out.find("aborted 8\n") != std::string::npos; }));
  EXPECT_EQ(counted().requests, 2U);
  EXPECT_EQ(counted().unknown, 1U);
  EXPECT_EQ(counted().estimated, kMost);
  EXPECT_EQ(counted().total, 29U);
  ASSERT_EQ(notices_.size(), 2U);
  EXPECT_EQ(notices_[0].used.verdict, meter::ResponseReader::Verdict::Unknown);
}

TEST_F(MeteringOfHttp2, AStreamThatTheServerResetsIsUnknownAndBounded) {
  const auto exit = ask("await ask('reset'); await ask('json');");
  EXPECT_EQ(exit.out, "reset 200 true 2\njson 200 true 0\n") << exit.err;
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().requests, 2U);
  EXPECT_EQ(counted().unknown, 1U);
  EXPECT_EQ(counted().estimated, kMost);
  EXPECT_EQ(counted().total, 29U);
}

// Bug 66. Each attempt of a call is a request; its usage is what the provider reports, once.
TEST_F(MeteringOfHttp2, ACallThatIsTriedAgainIsCountedByWhatIsReported) {
  const auto exit = ask("while (await ask('flaky') == 429);");
  EXPECT_EQ(exit.out, "flaky 429 true 0\nflaky 200 true 0\n") << exit.err;
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().requests, 2U);
  EXPECT_EQ(counted().unknown, 0U);
  EXPECT_EQ(counted().estimated, 0U);
  EXPECT_EQ(counted().total, 29U);
  ASSERT_EQ(notices_.size(), 2U);
  EXPECT_EQ(notices_[0].used.verdict, meter::ResponseReader::Verdict::Nothing);
  EXPECT_EQ(notices_[1].used.verdict, meter::ResponseReader::Verdict::Reported);
}

}
}
