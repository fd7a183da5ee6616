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

std::string hidden(std::string_view body, size_t step = 1) {
  UsageHider hider;
  std::string out;
  for (size_t at = 0; at < body.size(); at += step) hider.feed(body.substr(at, step), out);
  hider.finish(out);
  return out;
}

std::string with_lines_ending(std::string_view end, std::string_view body) {
  std::string out;
  for (const char c : body)
    if (c == '\n')
      out += end;
    else
      out += c;
  return out;
}

// The provider's answers to the same request with include_usage and without.
TEST(UsageHider, GivesTheStreamThatWouldHaveComeUnasked) {
  for (const char* const end : {"\n", "\r\n", "\r"}) {
    const std::string asked = with_lines_ending(end, fixture("openai-chat.sse"));
    const std::string unasked = with_lines_ending(end, fixture("openai-chat-no-usage.sse"));
    for (size_t step = 1; step <= asked.size(); step += step < 40 ? 1 : 97)
      EXPECT_EQ(hidden(asked, step), unasked) << step;
    EXPECT_EQ(hidden(unasked), unasked);
  }
}

TEST(UsageHider, TakesOutTheMemberWhereverItStands) {
  struct Case {
    const char* asked;
    const char* unasked;
  };
  for (const Case& one : std::initializer_list<Case>{
           {R"({"a":1,"usage":null})", R"({"a":1})"},
           {R"({"a":1,"usage":null,"b":2})", R"({"a":1,"b":2})"},
           {R"({"a": [1], "usage": null, "b": "}"})", R"({"a": [1], "b": "}"})"},
           {R"({"a": "{", "usage" : null })", R"({"a": "{" })"},
           {R"({"usage":null,"a":1})", R"({"a":1})"},
           {R"({ "usage" : null , "a" : 1 })", R"({ "a" : 1 })"},
           {R"({"usage":null})", "{}"},
           {R"({"usage":null,"usage":null,"a":1,"usage":null,"usage":null})", R"({"a":1})"}}) {
    const std::string asked = "id: 1\ndata: " + std::string(one.asked) + "\n\n";
    for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}})
      EXPECT_EQ(hidden(asked, step), "id: 1\ndata: " + std::string(one.unasked) + "\n\n") << step;
  }
}

TEST(UsageHider, PassesEverythingElse) {
  const std::string pad(UsageHider::kMaxEvent, 'x');
  for (const std::string& body : {
           fixture("openai-chat-no-usage.sse"),
           fixture("groq.sse"),
           fixture("openrouter.sse"),
           fixture("anthropic-message.sse"),
           // Longer than an event of usage can be.
           "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"x\":\"" + pad + "\"}\n\n",
           std::string("data: {\"choices\":[]}"),
           std::string("\n\n\r\r"),
           std::string(),
           // The same word elsewhere.
           std::string("data: {\"a\":{\"b\":1,\"usage\":null},\"c\":[\"usage\",null]}\n\n"),
           std::string("data: {\"a\":\",\\\"usage\\\":null\"}\n\n"),
           std::string("data: {\"a\":1,\"usage\":nullx}\n\n"),
           std::string("data: {\"a\":1,\"usage\":null\n\n"),
           std::string("data: {\"a\":1,\"usage\":null \"b\":1}\n\n"),
           std::string("data: {\"a\":1,\"usages\":null,\"usage\":[null]}\n\n"),
           std::string("data: no json {\"a\":1,\"usage\":null}\n\n"),
           std::string(": {\"a\":1,\"usage\":null}\nevent: ,\"usage\":null\n\n"),
           std::string("data: ,\"usage\":null\n\ndata: {,\n\ndata: [{\n\n"),
       })
    for (const size_t step : {size_t{1}, size_t{3}, size_t{4096}})
      EXPECT_EQ(hidden(body, step), body) << step;
}

// Of an event of any length it holds back no more than what may be an event of usage, then no more
// than what may be the member.
TEST(UsageHider, HoldsLittleBack) {
  UsageHider hider;
  std::string out;
  hider.feed("data: {\"choices\":[1]}\n", out);
  EXPECT_EQ(out, "");
  hider.feed("\n", out);
  EXPECT_EQ(out, "data: {\"choices\":[1]}\n\n");
  out.clear();
  const std::string begin = "data: {\"x\":\"" + std::string(UsageHider::kMaxEvent, 'x') + '"';
  hider.feed(begin, out);
  EXPECT_EQ(out, begin);
  hider.feed(",\"usage\":null", out);
  EXPECT_EQ(out, begin);
  hider.feed(",\"y\":1", out);
  EXPECT_EQ(out, begin + ",\"y\":1");
  out.clear();
  hider.feed("," + std::string(UsageHider::kMaxMember, ' '), out);
  EXPECT_EQ(out, "," + std::string(UsageHider::kMaxMember, ' '));
  out.clear();
  hider.feed("\"usage\":null}\n\n", out);
  EXPECT_EQ(out, "\"usage\":null}\n\n");
}

}
}
