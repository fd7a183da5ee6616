// What becomes of tokens in an answer that is not as it was told: another writing, another flow's.

#include <gmock/gmock.h>

#include "unit/privacy/pii.h"

namespace mvm::privacy {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kCard = "4111111111111111";

std::string base64(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at + 3 <= text.size(); at += 3) {
    const auto byte = [&](size_t i) {
      return static_cast<uint32_t>(static_cast<uint8_t>(text[at + i]));
    };
    const uint32_t bits = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (const int shift : {18, 12, 6, 0}) out += kLetters[bits >> shift & 63];
  }
  return out;
}
std::string each(std::string_view text, std::string_view before) {
  std::string out;
  for (const char c : text) {
    out += before;
    for (const int shift : {4, 0}) out += "0123456789abcdef"[static_cast<uint8_t>(c) >> shift & 15];
  }
  return out;
}

using Tokens = Pii;

TEST_F(Tokens, InOtherWritingsAreMismatches) {
  for (const std::string_view value : {kMail, kCard}) {
    const std::string kind = value == kMail ? "email" : "card";
    for (const std::string on_mismatch : {"keep", "redact", "deny"}) {
      proto::PiiConfig config;
      config.mode = "tokenize";
      config.on_mismatch = on_mismatch;
      make(config);
      for (const auto& write : std::vector<std::function<std::string(const std::string&)>>{
               [](const std::string& t) { return base64("for " + t + " it is"); },
               [](const std::string& t) { return base64("is " + t + " it is"); },
               [](const std::string& t) { return each(t, "%"); },
               [](const std::string& t) { return each(t, ""); },
               [](const std::string& t) { return each(t, "\\u00"); },
               [](const std::string& t) { return each(t, "\\x"); }})
        for (const std::string type : {"application/json", "text/plain", "text/event-stream"}) {
          notes_.clear();
          const auto filter = begin();
          const std::string token = send(*filter, request("/"), value).body;
          ASSERT_NE(token, value);
          const std::string text = "data: \"" + write(token) + "\"\n\n";
          const Got got = receive(*filter, response({{"Content-Type", type}}), text, 7);
          filter->ended(true);
          EXPECT_THAT(told(), Contains("mismatched reencoded " + kind + " body 1")) << text;
          if (on_mismatch == "keep") {
            EXPECT_EQ(got.body, text);
            continue;
          }
          EXPECT_THAT(got.body + got.refusal,
                      HasSubstr(on_mismatch == "redact" ? "[redacted]" : "was changed"));
          EXPECT_THAT(got.body, Not(HasSubstr(write(token).substr(8, 16))));
        }
    }
  }
}

TEST_F(Tokens, AnAddressEncodedForAUrlIsOneInFieldsAndForms) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.on_mismatch = "deny";
  make(config);
  const auto filter = begin();
  std::string token = send(*filter, request("/"), kMail).body;
  token.replace(token.find('@'), 1, "%40");
  const Got got = receive(*filter,
                          response({{"Location", "/x%20?to=" + token},
                                    {"Content-Type", "application/x-www-form-urlencoded"}}),
                          "to=" + token);
  EXPECT_EQ(got.refusal, "");
  EXPECT_EQ(got.head.headers[0].value, "/x%20?to=jane.doe%40example.com");
  EXPECT_EQ(got.body, "to=jane.doe%40example.com");
  const auto other = begin();
  token = send(*other, request("/"), kMail).body;
  token.replace(token.find('@'), 1, "%40");
  EXPECT_THAT(
      receive(*other, response({{"Content-Type", "application/json"}}), "[\"/?to=" + token + "\"]")
          .refusal,
      HasSubstr("was changed"));
  other->ended(true);
  EXPECT_EQ(told().back(), "mismatched reencoded email body 1");
}

TEST_F(Tokens, InFramesOfBytesStay) {
  make("tokenize");
  for (const std::string type : {"application/vnd.amazon.eventstream", "application/grpc+proto"}) {
    const auto filter = begin();
    const std::string token = send(*filter, request("/"), kMail).body;
    EXPECT_EQ(receive(*filter, response({{"Content-Type", type}}), token).body, token);
  }
}

TEST_F(Tokens, OfFieldsAreJudgedToo) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.on_mismatch = "redact";
  make(config);
  const auto filter = begin();
  const std::string token = send(*filter, request("/"), kMail).body;
  const Got got = receive(*filter, response({{"X-A", each(token, "")}, {"X-B", token}}), "");
  EXPECT_EQ(got.head.headers[0].value, "[redacted]");
  EXPECT_EQ(got.head.headers[1].value, kMail);
  filter->ended(true);
  EXPECT_THAT(told(), Contains("mismatched reencoded email header 1"));
}

TEST_F(Tokens, InAnswersOfUtf16AreRestored) {
  const auto wide = [](std::string_view text, bool big) {
    std::string out;
    for (const char c : text) out += big ? std::string{'\0', c} : std::string{c, '\0'};
    return out;
  };
  make("tokenize");
  for (const bool big : {false, true})
    for (const std::string charset :
         {big ? "; charset=utf-16be" : "; charset=utf-16le", "; charset=utf-16", ""})
      for (const size_t step : {1, 2, 7, 1000}) {
        const std::string mark = big ? "\xfe\xff" : "\xff\xfe";
        const auto filter = begin();
        const std::string token = send(*filter, request("/"), kMail).body;
        const http::Headers headers = {{"Content-Type", "application/json" + charset}};
        const auto text = [&](std::string_view what) {
          return mark + wide("[\"" + std::string(what) + "\"]", big);
        };
        const Got got = receive(*filter, response(headers), text(token), step);
        EXPECT_EQ(got.refusal, "");
        EXPECT_EQ(got.body, text(kMail)) << charset << " " << step;
      }
  const auto filter = begin();
  send(*filter, request("/"), kMail);
  EXPECT_THAT(
      receive(*filter, response({{"Content-Type", "text/plain; charset=utf-16le"}}), "odd").refusal,
      HasSubstr("not text of the charset"));
}

// One of digits has no mark by which it could be told.
TEST_F(Tokens, OfAnotherFlowAreRememberedWithTheirClass) {
  make("tokenize");
  const std::string foreign = send(*begin(), request("/"), kCard).body;
  const auto filter = begin();
  const std::string own = send(*filter, request("/"), kCard).body;
  ASSERT_NE(own, foreign);
  EXPECT_EQ(receive(*filter, response(), foreign + " " + own + " " + own.substr(0, 13)).body,
            foreign + " " + std::string(kCard) + " " + own.substr(0, 13));
  filter->ended(true);
  EXPECT_THAT(told(), Contains("mismatched unknown card body 1"));
  EXPECT_THAT(told(), Contains("mismatched truncated card body 1"));
}

}
}
