// Tokens in streams of events, whole and in pieces.

#include "mvm/protect/events.h"

#include <string>

#include <gtest/gtest.h>

namespace mvm::protect {
namespace {

using Kind = EventRestorer::Kind;

std::string run(EventRestorer& restorer, std::string_view text, size_t step) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    if (!restorer.feed(text.substr(at, step), {}, out)) return out + "[refused]";
  return restorer.finish({}, out) ? out : out + "[refused]";
}

std::string restored(Vault& vault, std::string_view text, Kind kind = Kind::ServerSent) {
  EventRestorer once(vault, kind, OnMismatch::Keep);
  std::string whole = run(once, text, text.size() + 1);
  for (const size_t step : {1, 2, 3, 7, 50}) {
    EventRestorer again(vault, kind, OnMismatch::Keep);
    EXPECT_EQ(run(again, text, step), whole) << step;
  }
  return whole;
}

std::string delta(std::string_view text, int index = 0) {
  return "data: {\"index\":" + std::to_string(index) + ",\"delta\":{\"text\":\"" +
         std::string(text) + "\"}}\n\n";
}

struct Tokens {
  Vault vault{{}};
  std::string mail = *vault.token(PiiClass::Email, "jane@example.com", {});
  std::string card = *vault.token(PiiClass::Card, "4111 1111 1111 1111", {});
  std::string key = *vault.token(PiiClass::PrivateKey, "line \"one\"\nline two", {});
};

// What all strings of an index say together.
std::string said(std::string_view events, int index = 0) {
  std::string out;
  const std::string before = "{\"index\":" + std::to_string(index) + ",\"delta\":{\"text\":\"";
  for (size_t at = events.find(before); at != events.npos; at = events.find(before, at + 1)) {
    const size_t begin = at + before.size();
    out += events.substr(begin, events.find("\"}}", begin) - begin);
  }
  return out;
}

}

TEST(Events, TokensWithinOneEventAreRestored) {
  Tokens t;
  EXPECT_EQ(restored(t.vault, delta("to " + t.mail + ", " + t.card)),
            delta("to jane@example.com, 4111 1111 1111 1111"));
  EXPECT_EQ(restored(t.vault, "event: x\r\nid: 1\r\ndata: {\"a\":\"" + t.key + "\"}\r\n\r\n"),
            "event: x\r\nid: 1\r\ndata: {\"a\":\"line \\\"one\\\"\\nline two\"}\r\n\r\n");
  EXPECT_EQ(restored(t.vault, "data: to " + t.mail + "\n\ndata: [DONE]\n\n"),
            "data: to jane@example.com\n\ndata: [DONE]\n\n");
  EXPECT_EQ(restored(t.vault, "data: to " + t.mail), "data: to jane@example.com");
}

TEST(Events, TokensInPiecesAreRestoredAtEveryCut) {
  Tokens t;
  for (const std::string& token : {t.mail, t.card}) {
    const std::string value = token == t.mail ? "jane@example.com" : "4111 1111 1111 1111";
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const std::string text =
          delta("to " + token.substr(0, cut)) + delta(token.substr(cut) + ", ok");
      const std::string out = restored(t.vault, text);
      EXPECT_EQ(said(out), "to " + value + ", ok") << cut;
      EXPECT_EQ(out, delta("to " + value) + delta(", ok"));
    }
    std::string each;
    for (const char c : token) each += delta({&c, 1});
    EXPECT_EQ(said(restored(t.vault, each + delta(" end"))), value + " end");
    EXPECT_EQ(said(restored(t.vault, each)), value);
  }
}

// What a model calls a tool with is JSON, in pieces: "partial_json" (Anthropic), "arguments"
// (OpenAI), "delta" (its Responses).
TEST(Events, ValuesInPiecesOfJsonAreEscapedTwice) {
  Tokens t;
  const std::string once = R"(line \"one\"\nline two)";
  const std::string twice = R"(line \\\"one\\\"\\nline two)";
  const std::string call = R"({\"to\": \")" + t.key + R"(\", \"n\": [1]})";
  const std::string made = R"({\"to\": \")" + twice + R"(\", \"n\": [1]})";
  // Pieces of so many bytes; an escape is never cut.
  const auto in_pieces = [](std::string_view text, size_t size) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(at + size, text.size());
      if (text[end - 1] == '\\') ++end;
      out += delta(text.substr(at, end - at));
      at = end;
    }
    return out;
  };
  for (const size_t size : {1, 2, 5, 20, 40, 1000}) {
    EXPECT_EQ(said(restored(t.vault, in_pieces(call, size))), made) << size;
    // Another call behind it, and what is none.
    EXPECT_EQ(said(restored(t.vault, in_pieces(call + call, size) + delta("to " + t.key))),
              made + made + "to " + once);
    EXPECT_EQ(said(restored(t.vault, in_pieces("I say: " + t.key, size))), "I say: " + once);
  }
  // One that ends in its middle, and the next one.
  EXPECT_EQ(said(restored(t.vault, delta(R"({\"a\": \"b)") + delta(call))),
            R"({\"a\": \"b)" + made);
  // Several at a time.
  EXPECT_EQ(said(restored(t.vault, delta(R"({\"to\": \")", 0) + delta("some words", 1) +
                                       delta(t.key, 0) + delta(R"(\"})", 0))),
            R"({\"to\": \")" + twice + R"(\"})");
  EXPECT_EQ(restored(t.vault, "data: {\"functionCall\":{\"args\":{\"to\":\"" + t.key + "\"}}}\n\n"),
            "data: {\"functionCall\":{\"args\":{\"to\":\"" + once + "\"}}}\n\n");
}

TEST(Events, TokensThatGoOnAsLongerWordsStay) {
  Tokens t;
  for (const std::string& token : {t.mail, t.card})
    for (const std::string more : {"7", "x", ".a"})
      for (size_t cut = 1; cut <= token.size(); ++cut) {
        const std::string text = delta(token.substr(0, cut)) + delta(token.substr(cut)) +
                                 delta(more.substr(0, 1)) + delta(more.substr(1) + "b");
        EXPECT_EQ(restored(t.vault, text), text) << cut;
      }
  // A full stop ends it.
  EXPECT_EQ(said(restored(t.vault, delta("a " + t.mail) + delta(".") + delta(" B"))),
            "a jane@example.com. B");
  // Whole values, one event after the other, are no text that goes on.
  const std::string event = "data: {\"mail\":\"" + t.mail + "\"}\n\n";
  EXPECT_EQ(restored(t.vault, event + event),
            "data: {\"mail\":\"jane@example.com\"}\n\ndata: {\"mail\":\"jane@example.com\"}\n\n");
}

TEST(Events, StreamsWithinAStreamAreToldApart) {
  Tokens t;
  std::string text;
  for (size_t at = 0; at < t.mail.size(); at += 5) {
    text += delta(t.mail.substr(at, 5), 0);
    text += delta("x" + std::to_string(at) + " m", 1);
  }
  const std::string out = restored(t.vault, text + delta(" end"));
  EXPECT_EQ(said(out, 0), "jane@example.com end");
  EXPECT_EQ(said(out, 1), said(text, 1));
}

TEST(Events, WhatIsNoTokenPassesAsItCame) {
  Tokens t;
  const std::string begin = t.mail.substr(0, 9);
  for (const std::string& text :
       {delta("I m") + delta("ean") + "data: [DONE]\n\n", delta(begin) + delta("else"),
        delta(begin) + "data: {\"stop\":true}\n\n", ": comment\n\n" + delta("9") + delta("9"),
        delta(t.mail + "x"),
        std::string("data: {\"id\":\"a-9\",\"x\":9}\n\ndata: {\"id\":\"a-9\"}\n\n"),
        std::string("\n\n\ndata\n\n"), "data: two\ndata: lines " + begin + "\n\n"})
    EXPECT_EQ(restored(t.vault, text), text);
}

TEST(Events, OnlyWhatMayBecomeATokenWaits) {
  Tokens t;
  EventRestorer restorer(t.vault, Kind::ServerSent, OnMismatch::Keep);
  std::string out;
  ASSERT_TRUE(restorer.feed(delta("hello "), {}, out));
  EXPECT_EQ(out, delta("hello "));
  out.clear();
  ASSERT_TRUE(restorer.feed(delta(t.mail.substr(0, 8)) + ": ping\n\n", {}, out));
  EXPECT_EQ(out, "");
  EXPECT_EQ(restorer.waiting(), 2U);
  // Whole, and it may still turn out to be part of a longer word.
  ASSERT_TRUE(restorer.feed(delta(t.mail.substr(8)), {}, out));
  EXPECT_EQ(out, "");
  ASSERT_TRUE(restorer.feed(delta(", ok"), {}, out));
  EXPECT_EQ(out, delta("jane@example.com") + ": ping\n\n" + delta("") + delta(", ok"));
  EXPECT_EQ(restorer.counts().restored, 1U);
}

TEST(Events, WaitNoLongerThanTheLimit) {
  Tokens t;
  EventRestorer restorer(t.vault, Kind::ServerSent, OnMismatch::Keep);
  std::string out;
  std::string text = delta(t.mail.substr(0, 8));
  for (size_t i = 0; i < EventRestorer::kMaxBehind; ++i) text += ": ping\n\n";
  ASSERT_TRUE(restorer.feed(text, {}, out));
  EXPECT_EQ(out, text);
  EXPECT_EQ(restorer.waiting(), 0U);
  const std::string endless(3 * EventRestorer::kMaxEvent, 'x');
  out.clear();
  ASSERT_TRUE(restorer.feed(endless, {}, out));
  EXPECT_GE(out.size(), endless.size() - EventRestorer::kMaxEvent - 1);
}

TEST(Events, LinesOfJsonAreEventsToo) {
  Tokens t;
  const auto line = [](std::string_view text) {
    return "{\"response\":\"" + std::string(text) + "\",\"done\":false}\n";
  };
  EXPECT_EQ(
      restored(t.vault, line("to " + t.mail.substr(0, 9)) + line(t.mail.substr(9)) + line("."),
               Kind::Lines),
      line("to jane@example.com.") + line("") + line(""));
}

TEST(Events, ChangedTokensAreCountedAndRefused) {
  Tokens t;
  std::string upper = t.mail;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EventRestorer keep(t.vault, Kind::ServerSent, OnMismatch::Keep);
  EXPECT_EQ(run(keep, delta(upper), 1), delta(upper));
  const auto count = [](const EventRestorer& restorer, Mismatch kind, PiiClass of) {
    return restorer.counts().times(kind, of);
  };
  EXPECT_EQ(count(keep, Mismatch::CaseChanged, PiiClass::Email), 1U);
  EventRestorer redact(t.vault, Kind::ServerSent, OnMismatch::Redact);
  EXPECT_EQ(said(run(redact, delta("a " + upper + " b"), 1)), "a [redacted]@PII.INVALID b");
  EventRestorer deny(t.vault, Kind::ServerSent, OnMismatch::Deny);
  EXPECT_EQ(run(deny, delta("a") + delta(upper), 1), delta("a") + "[refused]");

  // In pieces.
  const auto in_pieces = [](const std::string& text) {
    std::string out;
    for (size_t at = 0; at < text.size(); at += 3) out += delta(text.substr(at, 3));
    return out;
  };
  const std::string cut = t.key.substr(0, 20);
  const std::string changed = "to " + upper + ", " + cut + "! " + t.card.substr(0, 17) + " end";
  EventRestorer split(t.vault, Kind::ServerSent, OnMismatch::Keep);
  EXPECT_EQ(run(split, in_pieces(changed), 1), in_pieces(changed));
  EXPECT_EQ(count(split, Mismatch::CaseChanged, PiiClass::Email), 1U);
  EXPECT_EQ(count(split, Mismatch::Truncated, PiiClass::PrivateKey), 1U);
  EXPECT_EQ(count(split, Mismatch::Truncated, PiiClass::Card), 1U);
  EventRestorer without(t.vault, Kind::ServerSent, OnMismatch::Redact);
  EXPECT_EQ(said(run(without, in_pieces(cut + "! " + t.key + " ok"), 1)),
            "[redacted]! line \\\"one\\\"\\nline two ok");
  EventRestorer refuse(t.vault, Kind::ServerSent, OnMismatch::Deny);
  EXPECT_TRUE(run(refuse, in_pieces(upper + " end"), 1).ends_with("[refused]"));
}

}
