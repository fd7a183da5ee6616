// Content codings, both ways; and streams whose usage was asked for on the client's behalf, which
// the client does not see, in any of them.
#include <gmock/gmock.h>

#include "provider_rig.h"

namespace mvm::metering {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST_F(Metering, ADamagedStreamWhoseUsageWasAskedForBreaksOff) {
  start({}, true);
  const std::string path = encoded(fixture("openai-chat.sse"), http::Coding::Gzip);
  const auto exit =
      guest(request("type=text/event-stream&coding=gzip&cut=1&file=" + path, R"({"stream":true})"));
  EXPECT_NE(exit.code, 0);
  ASSERT_TRUE(settled());
  EXPECT_EQ(counted().unknown, 1U);
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
  words.insert(words.end(), {"-H", ""});
  // What is none of its coding has bounds that nobody can tell.
  for (const char* coding : {"snappy", "br", "zstd, gzip"}) {
    words.back() = std::string("Content-Encoding: ") + coding;
    EXPECT_THAT(guest(words).out, HasSubstr("HTTP/1.1 415")) << coding;
  }
}

}
}
