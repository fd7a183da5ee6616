// Exchanges with AI providers through the proxy, with a real client and server: what they used is
// counted, and a budget refuses the next one.
#include "mvm/metering/filter.h"

#include <gmock/gmock.h>

#include "provider_rig.h"

namespace mvm::metering {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

// What nobody here reads is not nothing.
TEST(MeteringOfGrpc, IsUnknownAndRefusedUnderABudget) {
  for (const bool budget : {false, true}) {
    meter::Terms terms;
    if (budget) terms.budget.total_tokens = 1000;
    meter::Ledger ledger(terms, meter::Account{},
                         [](const meter::Record&, const meter::Account&) { return true; });
    MeterSource source(meter::Catalogue(), false, ledger);
    const auto filter = source.begin({1, 0, "generativelanguage.googleapis.com", 443, true});
    egress::BodyUse use = egress::BodyUse::Ignore;
    http::RequestHead head{"POST",
                           "/google.ai.generativelanguage.v1beta.GenerativeService/GenerateContent",
                           1,
                           {{"Content-Type", "application/grpc+proto"}},
                           {}};
    const auto verdict = filter->request_head(head, use);
    ASSERT_EQ(verdict.has_value(), budget);
    if (budget) {
      EXPECT_EQ(verdict->answer.status, 429U);
      EXPECT_THAT(verdict->answer.message, HasSubstr("gRPC"));
      continue;
    }
    http::ResponseHead answer{200, "OK", 1, {{"Content-Type", "application/grpc"}}, {}};
    EXPECT_FALSE(filter->response_head(answer, use));
    Bytes out;
    EXPECT_FALSE(filter->response_body(as_bytes(std::string_view("\0\0\0\0\2\n\0", 7)), true, out));
    filter->ended(true);
    EXPECT_EQ(ledger.account().sum().unknown, 1U);
  }
}

// As each provider's own clients read errors.
TEST(MeteringRefusals, HaveTheShapeOfTheProvidersErrors) {
  meter::Ledger ledger({.budget = {.requests = 1}}, meter::Account{},
                       [](const meter::Record&, const meter::Account&) { return true; });
  uint64_t id = 0;
  ASSERT_FALSE(ledger.admit(meter::Provider::OpenAi, {}, id));
  MeterSource source(meter::Catalogue(), false, ledger);
  const auto refused = [&](const std::string& host, const std::string& target) {
    egress::BodyUse use = egress::BodyUse::Ignore;
    http::RequestHead head{"POST", target, 1, {}, {}};
    const auto verdict = source.begin({1, 0, host, 443, true})->request_head(head, use);
    return verdict ? http::refusal_body(verdict->answer) : "admitted";
  };
  const std::string why = "the sandbox's AI budget is used up: max_requests is 1, and 1 is used";
  const std::string rest = R"(,"budget":"max_requests","limit":"1","used":"1","provider":")";
  const std::string begin = R"("error":{"reason":"ai_budget_exhausted","message":")" + why + "\"";
  const std::string ours = R"(,"type":"ai_budget_exhausted","code":"ai_budget_exhausted")";
  EXPECT_EQ(refused("api.openai.com", "/v1/responses"), "{" + begin + ours + rest + "openai\"}}\n");
  EXPECT_EQ(refused("api.anthropic.com", "/v1/messages"),
            R"({"type":"error",)" + begin +
                R"(,"type":"rate_limit_error","code":"ai_budget_exhausted")" + rest +
                "anthropic\"}}\n");
  EXPECT_EQ(refused("generativelanguage.googleapis.com", "/v1beta/models/g:generateContent"),
            "{" + begin +
                R"(,"code":429,"status":"RESOURCE_EXHAUSTED","type":"ai_budget_exhausted")" + rest +
                "gemini\"}}\n");
  EXPECT_EQ(refused("bedrock-runtime.us-east-1.amazonaws.com", "/model/m/converse"),
            R"({"__type":"ServiceQuotaExceededException","message":")" + why + "\"," + begin +
                ours + rest + "bedrock\"}}\n");
  EXPECT_EQ(refused("api.cohere.com", "/v2/chat"),
            R"({"message":")" + why + "\"," + begin + ours + rest + "cohere\"}}\n");
}

// The SDKs of OpenAI and Anthropic try what is refused with 429 three times, but for this field.
TEST(MeteringRefusals, SayWhereTryingAgainIsInVain) {
  bool kept = true;
  const auto keep = [&](const meter::Record&, const meter::Account&) { return kept; };
  const auto advice = [](meter::Ledger& ledger) -> std::string {
    MeterSource source(meter::Catalogue(), false, ledger);
    egress::BodyUse use = egress::BodyUse::Ignore;
    http::RequestHead head{"POST", "/v1/responses", 1, {}, {}};
    const auto verdict = source.begin({1, 0, kHost, 443, true})->request_head(head, use);
    if (!verdict) return "admitted";
    const auto answer = http::refusal_head(verdict->answer, 0);
    const std::string* field = http::find(answer.headers, "X-Should-Retry");
    return verdict->rule + " " + (field != nullptr ? *field : "-");
  };
  uint64_t id = 0;
  meter::Ledger used({.budget = {.requests = 1}}, meter::Account{}, keep);
  ASSERT_FALSE(used.admit(meter::Provider::OpenAi, {}, id));
  EXPECT_EQ(advice(used), "ai.budget.max_requests false");
  meter::Ledger reserved({.budget = {.total_tokens = 100}, .reserve = true}, meter::Account{},
                         keep);
  ASSERT_FALSE(reserved.admit(meter::Provider::OpenAi, {60, 0}, id));
  ASSERT_FALSE(reserved.bound(id, {60, 40}));
  EXPECT_EQ(advice(reserved), "ai.budget.max_total_tokens -");
  meter::Ledger full({.budget = {.requests = 9}}, meter::Account{}, keep);
  kept = false;
  EXPECT_EQ(advice(full), "ai.budget.journal -");
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

TEST_F(Metering, WhatIsAskedForAgainIsCountedOnce) {
  start({.on_unknown = meter::OnUnknown::Estimate});
  const auto get = [this](const std::string& path, const std::string& name) {
    const std::string url = "https://" + std::string(kHost) + path + "?file=" + name;
    EXPECT_THAT(guest({"curl", "-sS", "-i", "--cacert", authority_, url}).out,
                HasSubstr("HTTP/1.1 200"));
    ASSERT_TRUE(settled());
  };
  for (int i = 0; i < 3; ++i) get("/v1/batches/batch_abc123", "openai-batch.json");
  EXPECT_EQ(counted().total, 2000U);
  EXPECT_EQ(counted().requests, 3U);
  // An answer that nobody waits for: bounded when it is begun, known when it is there.
  post("file=openai-background-queued.json", R"({"background":true,"max_output_tokens":400})",
       "/v1/responses");
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().unknown, 1U);
  const uint64_t estimated = counted().estimated;
  EXPECT_GE(estimated, 400U);
  for (int i = 0; i < 3; ++i) get("/v1/responses/resp_abc123xyz", "openai-background-done.json");
  EXPECT_EQ(counted().total, 2000U + 2067U);
  EXPECT_EQ(counted().unknown, 1U);
  EXPECT_EQ(counted().estimated, estimated);
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
