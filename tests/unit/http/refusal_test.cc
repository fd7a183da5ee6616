#include "mvm/http/refusal.h"

#include <gtest/gtest.h>

#include "mvm/http/parser.h"

namespace mvm::http {
namespace {

const Refusal kRefusal{403,
                       "policy_denied",
                       "no rule admits example.com",
                       {{"host", "example.com"}, {"allow", "--allow-host example.com"}},
                       true};

TEST(Refusal, TellsWhyAndWhatWouldHelp) {
  EXPECT_EQ(encode_refusal(kRefusal),
            "HTTP/1.1 403 Forbidden\r\n"
            "Content-Type: application/json\r\n"
            "Cache-Control: no-store\r\n"
            "X-Mvm-Egress-Reason: policy_denied\r\n"
            "Connection: close\r\n"
            "Content-Length: 132\r\n"
            "\r\n"
            "{\"error\":{\"reason\":\"policy_denied\",\"message\":\"no rule admits example.com\","
            "\"host\":\"example.com\",\"allow\":\"--allow-host example.com\"}}\n");
}

TEST(Refusal, MayHaveWhatAServersOwnErrorsHave) {
  Refusal refusal{429, "a", "b", {{"c", "d"}}, false};
  refusal.beside = {{"type", "error"}, {"e", "\""}};
  refusal.code = 429;
  EXPECT_EQ(refusal_body(refusal),
            "{\"type\":\"error\",\"e\":\"\\\"\",\"error\":{\"reason\":\"a\",\"message\":\"b\","
            "\"code\":429,\"c\":\"d\"}}\n");
}

TEST(Refusal, HasNoBodyForHead) {
  const std::string text = encode_refusal(kRefusal, "HEAD");
  EXPECT_TRUE(text.ends_with("Content-Length: 132\r\n\r\n"));
}

TEST(Refusal, IsReadByAParserToItsEnd) {
  ResponseParser parser;
  const std::string text = encode_refusal(kRefusal);
  ByteView input = as_bytes(text);
  Event event = parser.next(input);
  while (event.kind != EventKind::End && event.kind != EventKind::Bad) event = parser.next(input);
  EXPECT_EQ(event.kind, EventKind::End);
  EXPECT_TRUE(input.empty());
}

TEST(JsonString, EscapesAndRepairs) {
  EXPECT_EQ(json_string("plain"), "\"plain\"");
  EXPECT_EQ(json_string("\"\\\n\x01\x7f"), "\"\\\"\\\\\\u000a\\u0001\\u007f\"");
  EXPECT_EQ(json_string("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  const std::string lost = "\xef\xbf\xbd";
  // Alone, overlong, a surrogate, beyond Unicode, cut off.
  EXPECT_EQ(json_string("\x80"), "\"" + lost + "\"");
  EXPECT_EQ(json_string("\xc0\xaf"), "\"" + lost + lost + "\"");
  EXPECT_EQ(json_string("\xed\xa0\x80"), "\"" + lost + lost + lost + "\"");
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"), "\"" + lost + lost + lost + lost + "\"");
  EXPECT_EQ(json_string("a\xe2\x82"), "\"a" + lost + lost + "\"");
}

}
}
