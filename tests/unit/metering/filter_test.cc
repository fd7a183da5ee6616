// Exchanges with AI providers through the proxy, with a real client and server: what they used is
// counted, and a budget refuses the next one.
#include "mvm/metering/filter.h"

#include <array>

#include <gmock/gmock.h>

#include "mvm/crypto/trust.h"
#include "mvm/http/coding.h"
#include "mvm/metering/journal_file.h"
#include "mvm/sys/file.h"

#include "unit/egress/rig.h"

namespace mvm::metering {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPublic = "93.184.216.34";
constexpr const char* kHost = "api.openai.com";

// Answers with the file and type that the query names, with "asked" in its place where the request
// asks for a stream's usage; "cut" ends in the middle, "hold" says nothing until the client goes
// away. What it was asked is in the answer's head.
constexpr const char* kProvider = R"(
import http.server, os, ssl, sys, urllib.parse
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def log_message(self, *a): pass
  def do_POST(self):
    if self.headers.get('Transfer-Encoding') == 'chunked':
      body = b''
      while (n := int(self.rfile.readline().split(b';')[0], 16)):
        body += self.rfile.read(n); self.rfile.readline()
      self.rfile.readline()
    else: body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
    q = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
    asked = b'"include_usage":true' in body
    answer = open(os.path.join(sys.argv[4], q['asked'] if asked and 'asked' in q else q['file']), 'rb').read()
    if 'times' in q: answer = answer * int(q['times'])
    self.send_response(int(q.get('status', 200)))
    if type := q.get('type', 'application/json'): self.send_header('Content-Type', type)
    self.send_header('X-Encoding', str(self.headers.get('Accept-Encoding')))
    self.send_header('X-Asked', str(asked))
    if 'coding' in q: self.send_header('Content-Encoding', q['coding'])
    if 'event-stream' in q.get('type', ''):
      self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
      stop = len(answer) // 2 if 'cut' in q else len(answer)
      for i in range(0, stop, 50):
        piece = answer[i:min(i + 50, stop)]
        self.wfile.write(b'%x\r\n%s\r\n' % (len(piece), piece)); self.wfile.flush()
      if 'hold' in q: self.rfile.read(1)
      if 'cut' in q or 'hold' in q: self.close_connection = True; return
      self.wfile.write(b'0\r\n\r\n')
    else:
      self.send_header('Content-Length', str(len(answer))); self.end_headers()
      self.wfile.write(answer)
  do_GET = do_POST
s = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), H)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(sys.argv[3], sys.argv[3] + '.key')
s.socket = c.wrap_socket(s.socket, server_side=True, do_handshake_on_connect=False)
s.serve_forever()
)";

constexpr std::array kCodings{http::Coding::Gzip, http::Coding::Deflate, http::Coding::Brotli,
                              http::Coding::Zstd};

class Metering : public egress::EgressTest {
 protected:
  void SetUp() override {
    EgressTest::SetUp();
    if (IsSkipped()) return;
    own_address(kPublic);
    resolver_.add(kHost, kPublic);
  }

  // Metering alone turns on looking into the providers' connections.
  void start(meter::Terms terms, bool inject = false) {
    const std::string path = certificate(kHost);
    settings_.trust = crypto::TrustStore::from_pem(as_text(sys::read_file(path, 1 << 20)), path);
    serve({"python3", "-u", "-c", kProvider, kPublic, "443", path, MVM_FIXTURES},
          {egress::ip(kPublic), 443});
    ledger_.emplace(std::move(terms), meter::Account{},
                    [](const meter::Record&, const meter::Account&) { return true; });
    allow_host(kHost);
    const std::vector<std::string> words{"openai"};
    const meter::Catalogue catalogue(words);
    settings_.policy.inspect = inspections(catalogue);
    settings_.filters.push_back(std::make_shared<MeterSource>(
        catalogue, inject, *ledger_,
        MeterSource::Watcher{[this](const UsageNotice& notice) { notices_.push_back(notice); },
                             [this](std::string_view model) { return model == withheld_; }}));
    start_proxy();
    authority_ = file("authority.pem", proxy_->authority_pem());
  }

  std::vector<std::string> request(const std::string& query, const std::string& body,
                                   const std::string& path = "/v1/chat/completions") {
    return {"curl",
            "-sS",
            "-i",
            "-N",
            "-m",
            "30",
            "--cacert",
            authority_,
            "--compressed",
            "-H",
            "Content-Type: application/json",
            "--data-binary",
            body,
            "https://" + std::string(kHost) + path + "?" + query};
  }
  std::string post(const std::string& query, const std::string& body = R"({"model":"gpt-4o"})") {
    return guest(request(query, body)).out;
  }
  static std::string fixture(const std::string& name) {
    return std::string(
        as_text(sys::read_file(std::string(MVM_FIXTURES) + "/" + name, size_t{1} << 20)));
  }
  // A file of this test's own with `text` in a content coding.
  std::string encoded(const std::string& text, http::Coding coding) const {
    http::Encoder encoder(std::vector<http::Coding>{coding});
    Bytes out;
    encoder.write(as_bytes(text), false, out);
    encoder.finish(out);
    static int files = 0;
    return file("encoded-" + std::to_string(++files), std::string(as_text(out)));
  }
  meter::Counts counted() const { return ledger_->account().sum(); }
  // The filter ends with the exchange, which may be a turn after the client has its answer.
  bool settled() {
    return eventually([&] { return ledger_->account().open.empty(); });
  }

  std::optional<meter::Ledger> ledger_;
  std::vector<UsageNotice> notices_;
  std::string withheld_;
  std::string authority_;
};

constexpr const char* kStream = "file=openai-chat.sse&type=text/event-stream";

TEST_F(Metering, CountsPlainAnswersAndStreams) {
  start({});
  const std::string answer = post("file=openai-chat.json");
  EXPECT_THAT(answer,
              AllOf(HasSubstr("HTTP/1.1 200"), HasSubstr("X-Encoding: deflate, gzip, br, zstd"),
                    HasSubstr("\"total_tokens\": 29")));
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().total, 29U);
  EXPECT_THAT(post(kStream, R"({"model":"gpt-4o","stream":true})"),
              AllOf(HasSubstr("X-Asked: False"), HasSubstr("[DONE]")));
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().total, 50U);
  EXPECT_EQ(counted().cached, 4U);
  EXPECT_EQ(counted().requests, 2U);
  EXPECT_EQ(counted().unknown, 0U);
  EXPECT_TRUE(ledger_->account().series.contains({meter::Provider::OpenAi, "gpt-4o-mini"}));
}

TEST_F(Metering, TheAnswerThatCrossesPassesAndTheNextRequestIsRefused) {
  start({.budget = {.total_tokens = 20}});
  EXPECT_THAT(post("file=openai-chat.json"), HasSubstr("\"total_tokens\": 29"));
  ASSERT_TRUE(settled());
  const std::string refused = post("file=openai-chat.json");
  EXPECT_THAT(
      refused,
      AllOf(HasSubstr("HTTP/1.1 429"), HasSubstr("X-Mvm-Egress-Reason: ai_budget_exhausted"),
            HasSubstr("\"budget\":\"max_total_tokens\""), HasSubstr("\"limit\":\"20\""),
            HasSubstr("\"used\":\"29\""), HasSubstr("\"code\":\"ai_budget_exhausted\""),
            Not(HasSubstr("total_tokens\": 29"))));
  EXPECT_EQ(counted().requests, 1U);
  EXPECT_EQ(counted().refused, 1U);
  const auto events = events_of(egress::EventKind::Http);
  EXPECT_EQ(events.back().reason, policy::Reason::AiBudget);
  EXPECT_EQ(events.back().rule, "ai.budget.max_total_tokens");
  // What uses nothing up is let out.
  const auto models = guest({"curl", "-sS", "--cacert", authority_,
                             "https://api.openai.com/v1/models?file=openai-error.json"});
  EXPECT_THAT(models.out, HasSubstr("Rate limit"));
}

TEST_F(Metering, ARunsBudgetRefusesWhileTheRunLasts) {
  start({.run_budget = {.requests = 1}});
  ledger_->run_began("run-one");
  EXPECT_THAT(post("file=openai-chat.json"), HasSubstr("HTTP/1.1 200"));
  ASSERT_TRUE(settled());
  EXPECT_THAT(post("file=openai-chat.json"),
              AllOf(HasSubstr("HTTP/1.1 429"), HasSubstr("\"of\":\"run\""),
                    HasSubstr("\"budget\":\"max_requests\"")));
  EXPECT_EQ(events_of(egress::EventKind::Http).back().rule, "ai.budgets.run.max_requests");
  ledger_->run_ended("run-one");
  EXPECT_THAT(post("file=openai-chat.json"), HasSubstr("HTTP/1.1 200"));
}

TEST_F(Metering, TellsOfEachExchangeOnce) {
  start({.on_unknown = meter::OnUnknown::Estimate});
  post("file=openai-chat.json");
  post("file=openai-chat-no-usage.sse&type=text/event-stream",
       R"({"model":"made-up-by-the-guest","stream":true,"max_tokens":400})");
  post("file=openai-error.json&status=429");
  ASSERT_TRUE(settled());
  using Verdict = meter::ResponseReader::Verdict;
  ASSERT_EQ(notices_.size(), 3U);
  for (const UsageNotice& notice : notices_) {
    EXPECT_EQ(notice.host, kHost);
    EXPECT_EQ(notice.port, 443);
    EXPECT_NE(notice.flow, 0U);
    EXPECT_EQ(notice.used.provider, meter::Provider::OpenAi);
  }
  EXPECT_EQ(notices_[0].used.verdict, Verdict::Reported);
  EXPECT_EQ(notices_[0].used.usage.total, 29U);
  EXPECT_EQ(notices_[1].used.verdict, Verdict::Unknown);
  EXPECT_EQ(notices_[1].used.model, "other");
  EXPECT_GT(notices_[1].used.estimate.output, 0U);
  EXPECT_EQ(notices_[2].used.verdict, Verdict::Nothing);
  EXPECT_EQ(notices_[2].used.usage, meter::Usage{});
}

TEST_F(Metering, ANameThatIsWithheldIsOtherWhereverItWouldBeShown) {
  start({});
  post("file=openai-chat.json");
  ASSERT_TRUE(settled());
  ASSERT_EQ(notices_.size(), 1U);
  withheld_ = notices_[0].used.model;
  ASSERT_NE(withheld_, "other");
  const auto series = ledger_->account().series;
  post("file=openai-chat.json");
  ASSERT_TRUE(settled());
  ASSERT_EQ(notices_.size(), 2U);
  EXPECT_EQ(notices_[1].used.model, "other");
  EXPECT_EQ(ledger_->account().series.at({meter::Provider::OpenAi, withheld_}),
            series.at({meter::Provider::OpenAi, withheld_}));
  EXPECT_EQ(ledger_->account().series.at({meter::Provider::OpenAi, "other"}).total, 29U);
}

TEST_F(Metering, AStreamWithoutUsageIsUnknownAndStopsALoopUnderEstimate) {
  start({.budget = {.total_tokens = 1000}, .on_unknown = meter::OnUnknown::Estimate});
  const std::string body = R"({"model":"gpt-4o","stream":true,"max_tokens":400})";
  int sent = 0;
  while (sent < 10 &&
         post("file=openai-chat-no-usage.sse&type=text/event-stream", body).find("HTTP/1.1 200") !=
             std::string::npos) {
    ++sent;
    ASSERT_TRUE(settled());
  }
  EXPECT_EQ(sent, 3);  // 400 and the request's bytes each
  EXPECT_EQ(counted().unknown, 3U);
  EXPECT_EQ(counted().total, 0U);
  EXPECT_EQ(counted().estimated, 3 * (400 + body.size()));
}

TEST_F(Metering, AsksForAStreamsUsageAndHidesTheAnswer) {
  start({}, true);
  const std::string query =
      "type=text/event-stream&file=openai-chat-no-usage.sse"
      "&asked=openai-chat.sse";
  EXPECT_THAT(post(query, R"({"model":"gpt-4o","stream":true})"), HasSubstr("X-Asked: True"));
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().total, 21U);
  // Who asks himself gets it, and who does not stream is not changed.
  EXPECT_THAT(post(query, R"({"stream":true,"stream_options":{"include_usage":true}})"),
              AllOf(HasSubstr("\"choices\":[]"), HasSubstr("\"usage\":null")));
  EXPECT_THAT(post("file=openai-chat.json"),
              AllOf(HasSubstr("X-Asked: False"), HasSubstr("\"total_tokens\": 29")));
}

// Byte by byte what the provider says to who does not ask, whatever its content coding and type.
TEST_F(Metering, AStreamWhoseUsageWasAskedForIsTheOneThatWasNot) {
  start({}, true);
  const std::string unasked = fixture("openai-chat-no-usage.sse");
  const auto expect = [&](const std::string& query, uint64_t requests) {
    auto words = request(query, R"({"model":"gpt-4o","stream":true})");
    std::erase(words, "-i");
    EXPECT_EQ(guest(words).out, unasked) << query;
    ASSERT_TRUE(settled());
    EXPECT_EQ(counted().total, 21 * requests) << query;
  };
  const std::string plain = "file=openai-chat-no-usage.sse&asked=openai-chat.sse&type=";
  expect(plain + "text/event-stream", 1);
  expect(plain, 2);
  uint64_t requests = 2;
  for (const http::Coding coding : kCodings)
    expect("type=text/event-stream&coding=" + std::string(http::coding_name(coding)) + "&file=" +
               encoded(unasked, coding) + "&asked=" + encoded(fixture("openai-chat.sse"), coding),
           ++requests);
}

// What cannot be decoded cannot be changed either.
TEST_F(Metering, ADamagedStreamWhoseUsageWasAskedForBreaksOff) {
  start({}, true);
  const std::string path = encoded(fixture("openai-chat.sse"), http::Coding::Gzip);
  const auto exit =
      guest(request("type=text/event-stream&coding=gzip&cut=1&file=" + path, R"({"stream":true})"));
  EXPECT_NE(exit.code, 0);
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().unknown, 1U);
}

TEST_F(Metering, AnEndInTheMiddleIsUnknown) {
  start({.on_unknown = meter::OnUnknown::Refuse});
  post(std::string(kStream) + "&cut=1", R"({"stream":true})");
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().unknown, 1U);
  EXPECT_THAT(post(kStream), HasSubstr("\"budget\":\"on_unknown\""));
}

TEST_F(Metering, AClientThatGoesAwayLeavesAnUnknown) {
  start({.on_unknown = meter::OnUnknown::Estimate});
  const std::string body = R"({"stream":true,"max_tokens":100})";
  // It takes the beginning of the answer and resets the connection.
  const auto client = guest({"python3", "-c", R"(
import socket, ssl, struct, sys
c = ssl.create_default_context(cafile=sys.argv[1])
s = c.wrap_socket(socket.create_connection(('api.openai.com', 443)), server_hostname='api.openai.com')
body = sys.argv[2].encode()
s.sendall(b'POST /v1/chat/completions?file=openai-chat-no-usage.sse&type=text/event-stream&hold=1 '
          b'HTTP/1.1\r\nHost: api.openai.com\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body))
while b'Hello' not in s.recv(65536): pass
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
)",
                             authority_, body});
  ASSERT_EQ(client.code, 0) << client.err;
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().unknown, 1U);
  EXPECT_EQ(counted().estimated, 100 + body.size());
}

TEST_F(Metering, ErrorsAndWhatIsNoJsonPassAndUseNothingUp) {
  start({.on_unknown = meter::OnUnknown::Refuse});
  EXPECT_THAT(post("file=openai-error.json&status=429"),
              AllOf(HasSubstr("HTTP/1.1 429"), HasSubstr("Rate limit")));
  EXPECT_THAT(post("file=openai-chat.sse&status=502&type=text/html"), HasSubstr("HTTP/1.1 502"));
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().requests, 2U);
  EXPECT_EQ(counted().unknown, 0U);
}

TEST_F(Metering, ReadsEncodedAnswersAndGivesThemAsTheyCame) {
  start({});
  uint64_t requests = 0;
  for (const http::Coding coding : kCodings) {
    const std::string name(http::coding_name(coding));
    const std::string path = encoded(fixture("openai-chat.sse"), coding);
    const std::string query = "type=text/event-stream&coding=" + name + "&file=" + path;
    // Without --compressed curl gives what came.
    auto words = request(query, R"({"stream":true})");
    std::erase(words, "--compressed");
    std::erase(words, "-i");
    EXPECT_EQ(guest(words).out, as_text(sys::read_file(path, size_t{1} << 20))) << name;
    ASSERT_TRUE(settled());
    EXPECT_EQ(counted().total, 21 * ++requests) << name;
    // Half of one is unknown.
    post(query + "&cut=1");
    ASSERT_TRUE(settled());
    EXPECT_EQ(counted().unknown, requests) << name;
    EXPECT_EQ(counted().total, 21 * requests) << name;
  }
}

TEST_F(Metering, ReadsEncodedRequestsAndRefusesThoseItCannotUnderABudget) {
  start({.budget = {.total_tokens = 1000}, .on_unknown = meter::OnUnknown::Estimate});
  const std::string body = R"({"stream":true,"max_tokens":100})";
  const std::string query = "file=openai-chat-no-usage.sse&type=text/event-stream";
  uint64_t requests = 0;
  for (const http::Coding coding : kCodings) {
    auto words = request(query, "@" + encoded(body, coding));
    words.insert(words.end(),
                 {"-H", "Content-Encoding: " + std::string(http::coding_name(coding))});
    EXPECT_THAT(guest(words).out, HasSubstr("HTTP/1.1 200"));
    ASSERT_TRUE(settled());
    EXPECT_EQ(counted().estimated, ++requests * (100 + body.size()));
  }
  auto words = request(query, body);
  words.insert(words.end(), {"-H", "Content-Encoding: snappy"});
  EXPECT_THAT(guest(words).out, HasSubstr("HTTP/1.1 415"));
}

TEST_F(Metering, ReadsALargeAnswer) {
  start({});
  // Ten megabytes of documents; the last one's usage counts.
  post("file=openai-chat.json&times=12000");
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().total, 29U);
}

TEST_F(Metering, ConcurrentRequestsStayWithinWhatIsReserved) {
  start({.budget = {.total_tokens = 1000}, .reserve = true});
  // Each may use a little more than 400: two at a time.
  std::vector<std::unique_ptr<egress::Program>> clients;
  for (int i = 0; i < 12; ++i)
    clients.push_back(
        start_guest(request("file=openai-chat-no-usage.sse&type=text/event-stream&hold=1",
                            R"({"stream":true,"max_tokens":400})")));
  ASSERT_TRUE(eventually([&] { return counted().refused == 10; }));
  EXPECT_EQ(ledger_->account().open.size(), 2U);
}

TEST_F(Metering, AWebSocketIsRefusedUnderABudget) {
  start({.budget = {.total_tokens = 1000}});
  const auto exit =
      guest({"curl", "-sS", "-i", "-m", "20", "--cacert", authority_, "-H", "Connection: Upgrade",
             "-H", "Upgrade: websocket", "-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "-H",
             "Sec-WebSocket-Version: 13", "https://api.openai.com/v1/realtime"});
  EXPECT_THAT(exit.out, AllOf(HasSubstr("429"), HasSubstr("WebSocket"))) << exit.err;
}

// Without one it passes, and what is said on it is unknown.
TEST(MeteringOfWebSockets, CountsThemAsUnknown) {
  meter::Ledger ledger({}, meter::Account{},
                       [](const meter::Record&, const meter::Account&) { return true; });
  const std::vector<std::string> words{"openai"};
  MeterSource source(meter::Catalogue(words), false, ledger, {});
  const auto filter = source.begin({1, 0, kHost, 443, true});
  ASSERT_NE(filter, nullptr);
  egress::BodyUse use = egress::BodyUse::Ignore;
  http::RequestHead head{"GET",
                         "/v1/realtime?model=gpt-4o-realtime-preview",
                         1,
                         {{"Connection", "Upgrade"}, {"Upgrade", "websocket"}},
                         {}};
  EXPECT_FALSE(filter->request_head(head, use));
  http::ResponseHead answer{101, "Switching Protocols", 1, {{"Upgrade", "websocket"}}, {}};
  EXPECT_FALSE(filter->response_head(answer, use));
  filter->ended(true);
  EXPECT_EQ(ledger.account().sum().requests, 1U);
  EXPECT_EQ(ledger.account().sum().unknown, 1U);
}

}
}
