// Tokens of a flow and their way back: exact ones only, wherever the response was cut.

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/protect/restore.h"
#include "mvm/protect/scanner.h"
#include "mvm/protect/vault.h"

namespace mvm::protect {
namespace {

using namespace std::chrono_literals;
const Vault::Time kNow{};

struct Value {
  PiiClass kind;
  std::string_view text;
};
constexpr Value kValues[] = {
    {PiiClass::Email, "jane.roe@example.org"},  {PiiClass::Card, "4111 1111 1111 1111"},
    {PiiClass::Card, "5555555555554444"},       {PiiClass::Phone, "+44 20 7946 0958"},
    {PiiClass::UsSsn, "536-90-4399"},           {PiiClass::Ipv4, "10.20.30.40"},
    {PiiClass::Ipv6, "2001:db8::ff00:42:8329"}, {PiiClass::Mac, "00:1A:2B:3C:4D:5E"},
    {PiiClass::Iban, "DE89370400440532013000"}, {PiiClass::ApiKey, "AKIAIOSFODNN7EXAMPLE"}};

std::string token_of(Vault& vault, const Value& value) {
  const std::string* token = vault.token(value.kind, value.text, kNow);
  EXPECT_NE(token, nullptr);
  return token == nullptr ? "" : *token;
}

std::string restore(Vault& vault, std::string_view text, Escaping escaping = Escaping::Plain,
                    OnMismatch policy = OnMismatch::Keep, Vault::Time now = kNow) {
  std::string out;
  Restorer restorer(vault, escaping, policy);
  if (!restorer.feed(text, now, out) || !restorer.finish(now, out)) out += "<denied>";
  return out;
}

size_t count(const Restorer& restorer, Mismatch kind, std::optional<PiiClass> of) {
  return restorer.counts().times(kind, of);
}

TEST(Vault, TheSameValueHasOneTokenInAFlowAndAnotherInTheNext) {
  Vault one({});
  Vault two({});
  for (const Value& value : kValues) {
    const std::string token = token_of(one, value);
    EXPECT_EQ(token_of(one, value), token);
    EXPECT_NE(token_of(two, value), token);
    EXPECT_EQ(token.find(value.text), std::string::npos);
  }
}

TEST(Vault, TokensFitTheirValuesAndAreNoRealOnes) {
  Randomness random;
  for (int round = 0; round < 200; ++round) {
    for (const Value& value : kValues) {
      const std::string token = make_token(value.kind, value.text, random);
      EXPECT_TRUE(scan("is " + token + " here").empty()) << token;
      if (value.kind != PiiClass::Card && value.kind != PiiClass::Phone) continue;
      ASSERT_EQ(token.size(), value.text.size());
      for (size_t i = 0; i < token.size(); ++i)
        EXPECT_EQ(std::isdigit(token[i]) != 0, std::isdigit(value.text[i]) != 0) << token;
    }
  }
  EXPECT_TRUE(make_token(PiiClass::Email, "a@b.org", random).ends_with("@pii.invalid"));
}

TEST(Vault, HasBounds) {
  Vault few({.entries = 2});
  EXPECT_NE(few.token(PiiClass::Email, "a@b.org", kNow), nullptr);
  EXPECT_NE(few.token(PiiClass::Email, "b@b.org", kNow), nullptr);
  EXPECT_EQ(few.token(PiiClass::Email, "c@b.org", kNow), nullptr);
  EXPECT_NE(few.token(PiiClass::Email, "a@b.org", kNow), nullptr);
  Vault small({.bytes = 10});
  EXPECT_EQ(small.token(PiiClass::Email, "much.longer@b.org", kNow), nullptr);
}

TEST(Restorer, RestoresExactTokensWhereverTheTextIsCut) {
  Vault vault({});
  std::string text;
  std::string expected;
  for (const Value& value : kValues) {
    text += "x <" + token_of(vault, value) + ">, ";
    expected += "x <" + std::string(value.text) + ">, ";
  }
  EXPECT_EQ(restore(vault, text), expected);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Restorer restorer(vault, Escaping::Plain, OnMismatch::Deny);
    std::string out;
    ASSERT_TRUE(restorer.feed(std::string_view(text).substr(0, cut), kNow, out));
    ASSERT_LE(restorer.held(), 64U);
    ASSERT_TRUE(restorer.feed(std::string_view(text).substr(cut), kNow, out));
    ASSERT_TRUE(restorer.finish(kNow, out));
    ASSERT_EQ(out, expected) << "cut at " << cut;
  }
  Restorer restorer(vault, Escaping::Plain, OnMismatch::Deny);
  std::string out;
  for (const char c : text) ASSERT_TRUE(restorer.feed({&c, 1}, kNow, out));
  ASSERT_TRUE(restorer.finish(kNow, out));
  EXPECT_EQ(out, expected);
  EXPECT_EQ(restorer.counts().restored, std::size(kValues));
}

TEST(Restorer, RestoresNothingElse) {
  Vault vault({});
  Vault other({});
  for (const Value& value : kValues) {
    const std::string token = token_of(vault, value);
    std::vector<std::string> changed = {token.substr(0, token.size() - 1),
                                        "1" + token,
                                        token + "1",
                                        "a" + token,
                                        token + "a",
                                        token + ".evil.example",
                                        token_of(other, value),
                                        std::string(token.rbegin(), token.rend())};
    std::string upper = token;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    if (upper != token) changed.push_back(upper);
    std::string inside = token;
    inside.insert(token.size() / 2, "-");
    changed.push_back(inside);
    for (const std::string& text : changed) {
      EXPECT_EQ(restore(vault, text), text);
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        Restorer restorer(vault, Escaping::Plain, OnMismatch::Keep);
        std::string out;
        restorer.feed(std::string_view(text).substr(0, cut), kNow, out);
        restorer.feed(std::string_view(text).substr(cut), kNow, out);
        restorer.finish(kNow, out);
        ASSERT_EQ(out, text) << "cut at " << cut;
      }
    }
  }
}

TEST(Restorer, WritesValuesAsTheirSurroundingsAre) {
  Vault vault({});
  const std::string token = *vault.token(PiiClass::ApiKey, "a\"b<c>&\n", kNow);
  EXPECT_EQ(restore(vault, "{\"x\":\"" + token + "\"}", Escaping::JsonString),
            "{\"x\":\"a\\\"b<c>&\\n\"}");
  EXPECT_EQ(restore(vault, "x=" + token, Escaping::Url), "x=a%22b%3Cc%3E%26%0A");
  EXPECT_EQ(restore(vault, "<b>" + token + "</b>", Escaping::Html),
            "<b>a&quot;b&lt;c&gt;&amp;\n</b>");
  const std::string mail = *vault.token(PiiClass::Email, "a@b.org", kNow);
  EXPECT_EQ(restore(vault, "to=" + escaped(mail, Escaping::Url), Escaping::Url), "to=a%40b.org");
}

// The text of a model's answer is lines, and escapes are letters.
TEST(Restorer, AnEscapeBeforeATokenIsNoPartOfItsWord) {
  Vault vault({});
  const std::string token = *vault.token(PiiClass::Email, "a@b.org", kNow);
  const std::string card = *vault.token(PiiClass::Card, "4111111111111111", kNow);
  for (const std::string before :
       {"\\n", "\\t", "\\r", "\\u000a", "\\u0020", "\\\\n", "%20", "x%0A"})
    for (const std::string& text : {"a" + before + token, before + token, before + card}) {
      std::string expected = text;
      const std::string& which = text.ends_with(card) ? card : token;
      expected.replace(text.size() - which.size(), which.size(),
                       text.ends_with(card) ? "4111111111111111" : "a@b.org");
      EXPECT_EQ(restore(vault, text, Escaping::JsonString, OnMismatch::Deny), expected);
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        Restorer restorer(vault, Escaping::JsonString, OnMismatch::Deny);
        std::string out;
        ASSERT_TRUE(restorer.feed(std::string_view(text).substr(0, cut), kNow, out));
        ASSERT_TRUE(restorer.feed(std::string_view(text).substr(cut), kNow, out));
        ASSERT_TRUE(restorer.finish(kNow, out));
        EXPECT_EQ(out, expected) << cut;
      }
    }
  for (const std::string before : {"n", "\\x", "\\u0041", "\\u00e4", "%41", "u0020"})
    EXPECT_EQ(restore(vault, before + token, Escaping::JsonString), before + token);
}

// A model puts no space between a value and the words of scripts that have none.
TEST(Restorer, ATokenBesideAnotherScriptStandsAlone) {
  Vault vault({});
  for (const Value& value : kValues) {
    const std::string token = token_of(vault, value);
    for (const auto& [before, behind] : {std::pair{"連絡先は", "です。"},
                                         {"邮箱：", "，"},
                                         {"“", "”"},
                                         {"«", "»"},
                                         {"—", "—"},
                                         {"카드는 ", "입니다"},
                                         {"\\u306f", "\\u3067"},
                                         {"x\xff", "\xff"}}) {
      const std::string text = before + token + behind;
      const std::string expected = before + std::string(value.text) + behind;
      EXPECT_EQ(restore(vault, text, Escaping::Plain, OnMismatch::Deny), expected);
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        Restorer restorer(vault, Escaping::Plain, OnMismatch::Deny);
        std::string out;
        ASSERT_TRUE(restorer.feed(std::string_view(text).substr(0, cut), kNow, out));
        ASSERT_TRUE(restorer.feed(std::string_view(text).substr(cut), kNow, out));
        ASSERT_TRUE(restorer.finish(kNow, out));
        EXPECT_EQ(out, expected) << cut;
      }
    }
    // Letters of an alphabet like its own make it a longer word.
    for (const std::string& text : {"é" + token, token + "é", "д" + token, token + "ế"})
      EXPECT_EQ(restore(vault, text), text);
  }
}

TEST(Restorer, EscapesOnceMoreForEachStringOfJson) {
  Vault vault({});
  const std::string value = "a \"b\"\\\nc";
  const std::string token = *vault.token(PiiClass::ApiKey, value, kNow);
  const std::string once = R"(a \"b\"\\\nc)";
  const std::string twice = R"(a \\\"b\\\"\\\\\\nc)";
  const auto json = [&](const std::string& text) {
    const std::string whole = restore(vault, text, Escaping::JsonString);
    std::string out;
    Restorer restorer(vault, Escaping::JsonString, OnMismatch::Keep);
    for (const char c : text) restorer.feed({&c, 1}, kNow, out);
    restorer.finish(kNow, out);
    EXPECT_EQ(out, whole);
    return whole;
  };
  for (const std::string before :
       {R"({"arguments":"{\"to\":\")", R"({"a":["[[1,true,{\"b\":{}}],\")",
        R"({"a":" {\u0022b\":\"\\\"x\\\" )", R"({"a":"{\"a\":1}\n{\"b\":\")"})
    EXPECT_EQ(json(before + token + R"(\"}"})"), before + twice + R"(\"}"})");
  // No JSON in the string, or no longer.
  for (const std::string before :
       {R"({"a":"b )", R"({"a":"{b: \")", R"({"a":"[1] \")", R"({"a":"{\"b\":\"c\"} \")",
        R"({"a":"[see \")", R"({"a":"{\"b\":\"\n)", R"({"{\"b\":\"c\"}":")", R"(")",
        R"({"a":"\"b\":\")", R"({"a":"{\"b\"]\")"})
    EXPECT_EQ(json(before + token + R"("})"), before + once + R"("})");
  EXPECT_EQ(json(R"(["[\"{\\\"a\\\":\\\")" + token + "\""),
            R"(["[\"{\\\"a\\\":\\\")" + escaped(twice, Escaping::JsonString) + "\"");
  // JSON that is not said to be it.
  EXPECT_EQ(restore(vault, "{\"a\":\"" + token + "\"}"), "{\"a\":\"" + once + "\"}");
  EXPECT_EQ(restore(vault, "{a:\"" + token + "\"}"), "{a:\"" + value + "\"}");
}

TEST(Restorer, ExpiredAndReplayedTokensStay) {
  Vault vault({.lifetime = 5s, .once = true});
  const std::string token = *vault.token(PiiClass::Email, "a@b.org", kNow);
  EXPECT_EQ(restore(vault, token, Escaping::Plain, OnMismatch::Keep, kNow + 6s), token);
  EXPECT_EQ(restore(vault, token + " " + token), "a@b.org " + token);
  EXPECT_EQ(restore(vault, token, Escaping::Plain, OnMismatch::Redact), kRedacted);
}

TEST(Restorer, MismatchesAreJudgedAndFollowPolicy) {
  Vault vault({});
  Vault other({});
  const std::string token = *vault.token(PiiClass::ApiKey, "secret value", kNow);
  std::string upper = token;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  const std::string foreign = *other.token(PiiClass::ApiKey, "secret value", kNow);
  EXPECT_EQ(restore(vault, "a " + upper + " b", Escaping::Plain, OnMismatch::Redact),
            "a [redacted] b");
  EXPECT_EQ(restore(vault, "a " + foreign + " b", Escaping::Plain, OnMismatch::Deny), "a <denied>");

  Restorer restorer(vault, Escaping::Plain, OnMismatch::Keep);
  std::string out;
  restorer.feed(upper + " " + foreign + " " + token.substr(0, 20) + " ", kNow, out);
  restorer.finish(kNow, out);
  EXPECT_EQ(count(restorer, Mismatch::CaseChanged, PiiClass::ApiKey), 1U);
  EXPECT_EQ(count(restorer, Mismatch::Unknown, std::nullopt), 1U);
  EXPECT_EQ(count(restorer, Mismatch::Truncated, PiiClass::ApiKey), 1U);
}

// Those of digits, which no mark tells from other numbers.
TEST(Restorer, NumbersThatWereCutOrAreAnotherFlowsAreMismatches) {
  Vault vault({});
  Vault other({});
  PastTokens past;
  const auto judged = [&](const std::string& text, Mismatch kind, PiiClass of) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      Restorer restorer(vault, Escaping::Plain, OnMismatch::Keep, &past);
      std::string out;
      restorer.feed(std::string_view(text).substr(0, cut), kNow, out);
      restorer.feed(std::string_view(text).substr(cut), kNow, out);
      restorer.finish(kNow, out);
      EXPECT_EQ(out, text);
      EXPECT_EQ(count(restorer, kind, of), 1U) << text << " cut at " << cut;
    }
    EXPECT_EQ(restore(vault, "a " + text + " b", Escaping::Plain, OnMismatch::Keep),
              "a " + text + " b");
  };
  for (const Value& value : kValues) {
    const std::string token = token_of(vault, value);
    const std::string foreign = token_of(other, value);
    past.add(token, value.kind);
    past.add(foreign, value.kind);
    judged("is " + foreign, Mismatch::Unknown, value.kind);
    const auto digits =
        std::ranges::count_if(token, [](unsigned char c) { return std::isalnum(c); });
    if (digits < 11) continue;  // what is left of it is no rare number
    judged(token.substr(0, token.size() - 1), Mismatch::Truncated, value.kind);
    judged(token + "7", Mismatch::Truncated, value.kind);
    std::string upper = token;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    if (upper != token) judged("(" + upper + ")", Mismatch::CaseChanged, value.kind);
  }
  const std::string card = token_of(vault, kValues[2]);
  Restorer restorer(vault, Escaping::JsonString, OnMismatch::Redact);
  std::string out;
  restorer.feed("{\"a\":" + card + "1,\"b\":\"" + card + "1\",\"c\":" + card + "}", kNow, out);
  restorer.finish(kNow, out);
  EXPECT_EQ(out, "{\"a\":\"[redacted]\",\"b\":\"[redacted]\",\"c\":5555555555554444}");
}

TEST(Restorer, SaysWhatItWouldPassAsItIs) {
  Vault vault({});
  PastTokens past;
  const std::string token = *vault.token(PiiClass::Card, "4111 1111 1111 1111", kNow);
  Restorer restorer(vault, Escaping::Plain, OnMismatch::Redact, &past);
  EXPECT_TRUE(restorer.may_change("is " + token));
  EXPECT_TRUE(restorer.may_change("x MVMPII"));
  EXPECT_FALSE(restorer.may_change("application/json"));
  EXPECT_FALSE(restorer.may_change(""));
  std::string out;
  EXPECT_TRUE(restorer.whole("is " + token, kNow, out));
  EXPECT_EQ(out, "is 4111 1111 1111 1111");
  // Another flow's, from when it is known on.
  EXPECT_FALSE(restorer.may_change("#~#~"));
  past.add("#~ token", PiiClass::Card);
  EXPECT_TRUE(restorer.may_change("#~#~"));
}

TEST(PastTokens, TheLastOnesAreRemembered) {
  PastTokens past;
  past.add("999900000001", PiiClass::Card);
  for (size_t i = 1; i < PastTokens::kMax; ++i)
    past.add("888" + std::to_string(i), PiiClass::Phone);
  ASSERT_TRUE(past.at("999900000001 and more"));
  EXPECT_EQ(past.at("999900000001")->kind, PiiClass::Card);
  EXPECT_EQ(past.begun("99990"), PiiClass::Card);
  past.add("8881", PiiClass::Phone);  // is there
  EXPECT_TRUE(past.at("999900000001"));
  past.add("fresh", PiiClass::Phone);
  EXPECT_FALSE(past.at("999900000001"));
  EXPECT_TRUE(past.at("fresh"));
  EXPECT_EQ(past.at("88812345")->length, 7U);  // "8881234", not "8881" or "88812"
  EXPECT_EQ(past.begun("88"), PiiClass::Phone);
  EXPECT_FALSE(past.begun("87"));
}

// Each of the last ones, however many there have been, and what they begin with no longer than they
// do.
TEST(PastTokens, AreRememberedInTheirOrder) {
  PastTokens past;
  const auto name = [](size_t i) {
    return "t" + std::string(1, static_cast<char>('a' + i % 7)) + std::to_string(i) + ".";
  };
  const size_t all = 3 * PastTokens::kMax + 17;
  for (size_t i = 0; i < all; ++i) past.add(name(i), i % 2 == 0 ? PiiClass::Card : PiiClass::Email);
  for (size_t i = 0; i < all; ++i) {
    const auto known = past.at(name(i) + " and more");
    ASSERT_EQ(known.has_value(), i >= all - PastTokens::kMax) << i;
    if (known) {
      EXPECT_EQ(known->kind, i % 2 == 0 ? PiiClass::Card : PiiClass::Email);
    }
  }
  EXPECT_TRUE(past.may_start('t', 'c'));
  EXPECT_FALSE(past.may_start('c', 't'));
}

TEST(Restorer, HoldsBackOnlyWhatMayBeAToken) {
  Vault vault({});
  const std::string token = *vault.token(PiiClass::Email, "a@b.org", kNow);
  Restorer restorer(vault, Escaping::Plain, OnMismatch::Keep);
  std::string out;
  restorer.feed("an ordinary sentence, some memory", kNow, out);
  EXPECT_EQ(restorer.held(), 0U);
  restorer.feed(" " + token.substr(0, 12), kNow, out);
  EXPECT_EQ(restorer.held(), 12U);
}

}
}
