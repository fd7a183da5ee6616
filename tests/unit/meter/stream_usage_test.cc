// Asking for a stream's usage on the client's behalf changes one member of the request, and the
// client sees nothing of it.

#include "mvm/meter/stream_usage.h"

#include <string>

#include <gtest/gtest.h>

#include "fixture.h"

namespace mvm::meter {
namespace {

std::string ask(std::string_view body, size_t step = 1, bool* asked = nullptr) {
  UsageAsker asker;
  std::string out;
  for (size_t at = 0; at < body.size(); at += step) asker.feed(body.substr(at, step), out);
  asker.finish(out);
  if (asked != nullptr) *asked = asker.asked();
  return out;
}

TEST(UsageAsker, AsksWhereTheRequestStreams) {
  for (const size_t step : {size_t{1}, size_t{2}, size_t{5}, size_t{1000}}) {
    bool asked = false;
    EXPECT_EQ(ask(R"({"model":"m","stream":true})", step, &asked),
              R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})");
    EXPECT_TRUE(asked);
    EXPECT_EQ(
        ask(R"( {"stream": true , "messages":[{"content":"}"}] } )", step),
        R"( {"stream": true , "messages":[{"content":"}"}] ,"stream_options":{"include_usage":true}} )");
    EXPECT_EQ(ask(R"({"stream":true,"stream_options":{}})", step),
              R"({"stream":true,"stream_options":{"include_usage":true}})");
    EXPECT_EQ(
        ask(R"({"stream_options":{"include_obfuscation":false},"stream":true})", step),
        R"({"stream_options":{"include_obfuscation":false,"include_usage":true},"stream":true})");
    EXPECT_EQ(ask(R"({"stream":true,"stream_options":{"include_usage":false}})", step),
              R"({"stream":true,"stream_options":{"include_usage":true}})");
    EXPECT_EQ(ask(R"({"stream":true,"stream_options":{"include_usage" : null }})", step),
              R"({"stream":true,"stream_options":{"include_usage" : true }})");
  }
}

TEST(UsageAsker, LeavesEverythingElseAsItIs) {
  for (const char* body :
       {R"({"model":"m"})", R"({"stream":false})", R"({"messages":[{"stream":true}]})",
        R"({"stream":true,"stream_options":{"include_usage":true}})", R"([{"stream":true}])",
        R"("stream")", "{", "{}", "", "no json {\"stream\":true}", R"({"a":{"stream":true}})",
        R"({"x":{"stream_options":{}}})"}) {
    bool asked = true;
    EXPECT_EQ(ask(body, 3, &asked), body);
    EXPECT_FALSE(asked) << body;
  }
}

std::string without_usage(std::string_view body, size_t step) {
  UsageEventRemover remover;
  std::string out;
  for (size_t at = 0; at < body.size(); at += step) remover.feed(body.substr(at, step), out);
  remover.finish(out);
  return out;
}

TEST(UsageEventRemover, TakesOutTheEventThatWasNotAskedFor) {
  const std::string body = fixture("openai-chat.sse");
  std::string expected = body;
  const size_t at = expected.rfind("data: ", expected.find("\"choices\":[]"));
  expected.erase(at, expected.find("\n\n", at) + 2 - at);
  for (const size_t step : {size_t{1}, size_t{3}, size_t{100}, body.size()})
    EXPECT_EQ(without_usage(body, step), expected);
  std::string crlf;
  std::string crlf_expected;
  for (const char c : body) c == '\n' ? crlf += "\r\n" : crlf += c;
  for (const char c : expected) c == '\n' ? crlf_expected += "\r\n" : crlf_expected += c;
  for (const size_t step : {size_t{1}, size_t{2}, crlf.size()})
    EXPECT_EQ(without_usage(crlf, step), crlf_expected);
}

TEST(UsageEventRemover, PassesEverythingElse) {
  const std::string large = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"x\":\"" +
                            std::string(UsageEventRemover::kMaxEvent, 'x') + "\"}\n\n";
  for (const std::string& body :
       {fixture("openai-chat-no-usage.sse"), fixture("groq.sse"), fixture("openrouter.sse"),
        fixture("anthropic-message.sse"), large, std::string("data: {\"choices\":[]}"),
        std::string("\n\n\r\r"), std::string()})
    for (const size_t step : {size_t{1}, size_t{4096}}) EXPECT_EQ(without_usage(body, step), body);
}

TEST(UsageEventRemover, GivesAnEventOutWhenItIsWhole) {
  UsageEventRemover remover;
  std::string out;
  remover.feed("data: {\"choices\":[1]}\n", out);
  EXPECT_EQ(out, "");
  remover.feed("\n", out);
  EXPECT_EQ(out, "data: {\"choices\":[1]}\n\n");
}

}
}
