// One exchange's filter by itself: every place and form of a request, and what may come back.

#include "mvm/privacy/filter.h"

#include <gmock/gmock.h>

#include "unit/privacy/pii.h"

namespace mvm::privacy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(Pii, NothingIsDoneWhereNothingIsAsked) {
  make("disabled");
  EXPECT_EQ(begin(), nullptr);
}

TEST_F(Pii, TokensLeaveAndValuesComeBack) {
  make("tokenize");
  const auto filter = begin();
  const Sent sent = send(*filter,
                         request("/users/jane.doe%40example.com?mail=jane.doe@example.com&x=1",
                                 {{"Content-Type", "application/json"},
                                  {"X-User", std::string(kMail)},
                                  {"Authorization", "Bearer sk-abc"}}),
                         R"({"to":"jane.doe\u0040example.com","card":"4111 1111 1111 1111"})");
  EXPECT_EQ(sent.use, BodyUse::Rewrite);
  for (const std::string& text : {sent.head.target, sent.head.headers[1].value, sent.body})
    EXPECT_THAT(text, Not(HasSubstr("jane"))) << text;
  EXPECT_THAT(sent.body, Not(HasSubstr("4111")));
  // One value has one token in all places.
  const std::string token = sent.head.headers[1].value;
  EXPECT_THAT(token, HasSubstr("@pii.invalid"));
  EXPECT_THAT(sent.body, HasSubstr("{\"to\":\"" + token + "\""));
  EXPECT_THAT(sent.head.target, HasSubstr("?mail=" + token + "&x=1"));
  EXPECT_EQ(sent.head.headers[2].value, "Bearer sk-abc");

  const Got got =
      receive(*filter, response({{"Content-Type", "application/json"}, {"X-Seen", token}}),
              "{\"seen\":\"" + token + "\"}");
  EXPECT_EQ(got.head.headers[1].value, kMail);
  EXPECT_EQ(got.body, "{\"seen\":\"jane.doe@example.com\"}");
  filter->ended(true);
  EXPECT_THAT(told(),
              ElementsAre("tokenized card body 1", "tokenized email body 1",
                          "tokenized email header 1", "tokenized email path 1",
                          "tokenized email query 1", "restored  body 1", "restored  header 1"));
}

// They are of the answer as it came. Where nothing can change in it they stay.
TEST_F(Pii, DigestsOfAnAnswerGoWithItsTokens) {
  make("tokenize");
  const auto answered = [&](std::string_view body) {
    const auto filter = begin();
    send(*filter, request("/", {{"Content-Type", "text/plain"}}), body);
    const Got got = receive(*filter,
                            response({{"Content-Type", "text/plain"},
                                      {"Content-MD5", "a"},
                                      {"DIGEST", "b"},
                                      {"Content-Digest", "c"},
                                      {"Repr-Digest", "d"},
                                      {"ETag", "e"}}),
                            "fine");
    std::vector<std::string> names;
    for (const http::Header& header : got.head.headers) names.push_back(header.name);
    return names;
  };
  EXPECT_THAT(answered("nothing"), ElementsAre("Content-Type", "Content-MD5", "DIGEST",
                                               "Content-Digest", "Repr-Digest", "ETag"));
  EXPECT_THAT(answered("to " + std::string(kMail)), ElementsAre("Content-Type", "ETag"));
}

TEST_F(Pii, EachExchangeHasTokensOfItsOwn) {
  make("tokenize");
  const auto first = begin();
  const auto second = begin();
  const std::string one = send(*first, request("/"), kMail).body;
  const std::string two = send(*second, request("/"), kMail).body;
  EXPECT_NE(one, two);
  const Got got = receive(*second, response(), one + " " + two);
  EXPECT_EQ(got.body, one + " " + std::string(kMail));
  second->ended(true);
  EXPECT_EQ(told().back(), "mismatched unknown email body 1");
}

TEST_F(Pii, ExchangesOfOneWindowShareTheirs) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.token_window_ms = 1000;
  make(config);
  const std::string one = send(*begin(), request("/"), kMail).body;
  now_ += std::chrono::milliseconds(900);
  EXPECT_EQ(send(*begin(), request("/"), kMail).body, one);
  // Of one destination.
  for (const auto& [host, port] : {std::pair{"other.example", 443}, {"api.example", 8443}}) {
    const auto other = source_->begin({1, index_++, host, static_cast<uint16_t>(port), true});
    EXPECT_NE(send(*other, request("/"), kMail).body, one) << host;
    EXPECT_EQ(receive(*other, response(), one).body, one) << host;
  }
  now_ += std::chrono::milliseconds(1100);
  EXPECT_NE(send(*begin(), request("/"), kMail).body, one);
}

// Whose tokens another command's requests are not to be told by.
TEST_F(Pii, AWindowEndsWhereACommandBeginsOrEnds) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.token_window_ms = 60'000;
  make(config);
  const auto under_way = begin();
  const std::string one = send(*under_way, request("/"), kMail).body;
  source_->run_changed();
  EXPECT_NE(send(*begin(), request("/"), kMail).body, one);
  EXPECT_EQ(receive(*begin(), response(), one).body, one);
  EXPECT_EQ(receive(*under_way, response(), one).body, kMail);
}

TEST_F(Pii, LateAndSecondTokensStayTokens) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.token_lifetime_ms = 1000;
  config.token_once = true;
  make(config);
  const auto filter = begin();
  const std::string token = send(*filter, request("/"), kMail).body;
  EXPECT_EQ(receive(*filter, response(), token + " " + token).body,
            std::string(kMail) + " " + token);
  const auto late = begin();
  const std::string other = send(*late, request("/"), kMail).body;
  now_ += std::chrono::milliseconds(1001);
  EXPECT_EQ(receive(*late, response(), other).body, other);
}

TEST_F(Pii, MismatchesAreKeptRedactedOrRefused) {
  for (const std::string on_mismatch : {"keep", "redact", "deny"}) {
    proto::PiiConfig config;
    config.mode = "tokenize";
    config.on_mismatch = on_mismatch;
    make(config);
    const auto filter = begin();
    std::string token = send(*filter, request("/"), kMail).body;
    token = token.substr(0, 20);
    const Got got = receive(*filter, response(), "a " + token + " b");
    const std::string text = got.refusal.empty() ? got.body : got.refusal;
    EXPECT_THAT(text, HasSubstr(on_mismatch == "keep"     ? "a " + token + " b"
                                : on_mismatch == "redact" ? "a [redacted] b"
                                                          : "was changed"));
    filter->ended(true);
    EXPECT_EQ(told().back(), "mismatched truncated email body 1");
  }
}

TEST_F(Pii, OtherModesDetectRedactAndRefuse) {
  make("detect");
  auto filter = begin();
  Sent sent = send(*filter, request("/"), kMail);
  EXPECT_EQ(sent.use, BodyUse::Read);
  make("redact");
  filter = begin();
  EXPECT_EQ(send(*filter, request("/?a=jane.doe@example.com"), "to " + std::string(kMail)).body,
            "to [redacted]");
  make("refuse");
  filter = begin();
  sent = send(*filter, request("/"), "to " + std::string(kMail));
  EXPECT_EQ(sent.refusal,
            "personal_data: the request holds personal data (email) in its body, which may not "
            "leave for api.example");
  sent = send(*begin(), request("/?mail=jane.doe@example.com"), "");
  EXPECT_THAT(sent.refusal, HasSubstr("in its query"));
  EXPECT_THAT(told(),
              ElementsAre("detected email body 1", "redacted email body 1",
                          "redacted email query 1", "denied email body 1", "denied email query 1"));
}

TEST_F(Pii, CodingsAreTakenOffAndPutBack) {
  make("tokenize");
  for (const http::Coding coding :
       {http::Coding::Gzip, http::Coding::Deflate, http::Coding::Brotli, http::Coding::Zstd}) {
    const std::string name(http::coding_name(coding));
    for (const size_t step : {size_t{1}, size_t{1} << 20}) {
      const auto filter = begin();
      const Sent sent = send(*filter, request("/", {{"Content-Encoding", name}}),
                             encoded(coding, "to " + std::string(kMail) + "."), step);
      const std::string text = decoded(coding, sent.body);
      EXPECT_THAT(text, HasSubstr("@pii.invalid"));
      const Got got =
          receive(*filter, response({{"Content-Encoding", name}}), encoded(coding, text), step);
      EXPECT_EQ(decoded(coding, got.body), "to " + std::string(kMail) + ".");
    }
  }
}

TEST_F(Pii, WhatCannotBeDecodedIsRefusedOrPasses) {
  const std::vector<http::Headers> opaque = {
      {{"Content-Encoding", "compress"}},
      {{"Content-Type", "image/png"}},
      {{"Content-Type", "nonsense"}},
      {{"Content-Type", "text/plain"}, {"Content-Type", "image/png"}},
      {{"Content-Type", "text/plain; charset=utf-7"}},
      {{"Upgrade", "websocket"}, {"Connection", "Upgrade"}},
  };
  make("tokenize");
  for (const http::Headers& headers : opaque)
    EXPECT_THAT(send(*begin(), request("/", headers), "x").refusal, HasSubstr("unreadable: "));
  EXPECT_THAT(
      send(*begin(), request("/", {{"Content-Type", "application/json"}}), "{\"a\":\"").refusal,
      HasSubstr("unreadable"));
  EXPECT_THAT(send(*begin(), request("/", {{"Content-Encoding", "gzip"}}), "no gzip").refusal,
              HasSubstr("its gzip data is damaged"));
  EXPECT_THAT(send(*begin(), request("/", {{"Content-Encoding", "gzip"}}),
                   encoded(http::Coding::Gzip, "text").substr(0, 15))
                  .refusal,
              HasSubstr("too early"));
  EXPECT_EQ(notes_.size(), 9U);
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.on_undecodable = "allow";
  make(config);
  for (size_t i = 0; i + 1 < opaque.size(); ++i)
    EXPECT_EQ(send(*begin(), request("/", opaque[i]), "jane.doe@example.com").body,
              "jane.doe@example.com");
}

TEST_F(Pii, TheLimitsAreTheManifests) {
  proto::PiiConfig config;
  config.mode = "tokenize";
  config.max_value = proto::kMinPiiValue;
  config.max_growth = 50;
  make(config);
  const std::string most(proto::kMinPiiValue, 'x');
  for (const auto& [type, before, behind] :
       {std::array{"application/json", "[\"", "\"]"}, std::array{"application/xml", "", "<a/>"},
        std::array{"application/x-www-form-urlencoded", "", "&a"}}) {
    const auto sent = [&](const std::string& value) {
      return send(*begin(), request("/", {{"Content-Type", type}}), before + value + behind)
          .refusal;
    };
    EXPECT_EQ(sent(most), "") << type;
    EXPECT_THAT(sent(most + "x"), HasSubstr("pii.max_value")) << type;
  }
  // Text without a value that would have to be held whole: the allowance is for all.
  const std::string zeroes = encoded(http::Coding::Gzip, std::string(size_t{8} << 20, ' '));
  const http::Headers coded = {{"Content-Type", "text/plain"}, {"Content-Encoding", "gzip"}};
  EXPECT_THAT(send(*begin(), request("/", coded), zeroes).refusal, HasSubstr("unreadable"));
  config.max_growth = proto::kMaxPiiGrowth;
  make(config);
  EXPECT_EQ(send(*begin(), request("/", coded), zeroes).refusal, "");
}

TEST_F(Pii, TheAnswerComesInACodingThatIsKnown) {
  make("tokenize");
  const Sent sent = send(*begin(), request("/", {{"Accept-Encoding", "gzip, dcz, br"}}, 0), "");
  EXPECT_EQ(sent.head.headers[0].value, "gzip, br");
}

TEST_F(Pii, CredentialsAreNotWhatItLooksForWhereTheyBelong) {
  make("refuse");
  const Sent sent = send(*begin(),
                         request("/", {{"Authorization",
                                        "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0."
                                        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
                                       {"User-Agent", "curl/7.88.1"}}),
                         "plain");
  EXPECT_EQ(sent.refusal, "");
  EXPECT_THAT(send(*begin(),
                   request("/", {{"X-Note",
                                  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0."
                                  "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}}),
                   "")
                  .refusal,
              HasSubstr("(jwt) in its header"));
}

TEST_F(Pii, ValuesThatCannotStandInAFieldAreNotPutThere) {
  make("tokenize");
  const auto filter = begin();
  const std::string pem =
      "-----BEGIN PRIVATE KEY-----\n" +
      std::string(
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n") +
      "-----END PRIVATE KEY-----";
  const std::string token = send(*filter, request("/"), pem).body;
  EXPECT_THAT(token, HasSubstr("mvmpii"));
  const Got got = receive(*filter, response({{"X-Key", token}}), token);
  EXPECT_EQ(got.head.headers[0].value, token);
  EXPECT_EQ(got.body, pem);
}

// An answer that cannot be read ends, instead of going on with what may be left in it.
TEST_F(Pii, AnAnswerWhoseCodingIsDamagedEnds) {
  make("tokenize");
  for (const size_t step : {size_t{1}, size_t{1} << 20}) {
    const auto filter = begin();
    const std::string token = send(*filter, request("/"), kMail).body;
    std::string data = encoded(http::Coding::Gzip, "to " + token + ", and to others");
    data[data.size() / 2] = static_cast<char>(data[data.size() / 2] ^ 0x55);
    const Got got = receive(*filter, response({{"Content-Encoding", "gzip"}}), data, step);
    EXPECT_FALSE(got.refusal.empty()) << step;
    filter->ended(false);
  }
}

TEST_F(Pii, BinaryAnswersPassUnread) {
  make("tokenize");
  const auto filter = begin();
  const std::string token = send(*filter, request("/"), kMail).body;
  EXPECT_EQ(receive(*filter, response({{"Content-Type", "image/png"}}), token).body, token);
}

TEST_F(Pii, EventStreamsAreRestoredAsTheyCome) {
  make("tokenize");
  const auto filter = begin();
  const std::string token = send(*filter, request("/"), kMail).body;
  BodyUse use = BodyUse::Ignore;
  http::ResponseHead head = response({{"Content-Type", "text/event-stream; charset=utf-8"}});
  ASSERT_FALSE(filter->response_head(head, use));
  const auto feed = [&](const std::string& text, bool last = false) {
    Bytes out;
    EXPECT_FALSE(filter->response_body(as_bytes(text), last, out));
    return std::string(as_text(out));
  };
  const auto event = [](const std::string& text) { return "data: {\"t\":\"" + text + "\"}\n\n"; };
  EXPECT_EQ(feed(event("hello ")), event("hello "));
  EXPECT_EQ(feed(event("to " + token.substr(0, 10))), "");
  EXPECT_EQ(feed(event(token.substr(10) + ", ok")),
            event("to " + std::string(kMail)) + event(", ok"));
  EXPECT_EQ(feed("data: [DONE]\n\n", true), "data: [DONE]\n\n");
}

}
}
