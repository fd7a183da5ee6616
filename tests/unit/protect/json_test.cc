// Values of JSON documents are replaced, whatever their escapes and cuts; everything else passes.

#include "mvm/protect/json.h"

#include <string>

#include <gtest/gtest.h>

namespace mvm::protect {
namespace {

std::optional<std::string> mark(const Finding& finding, std::string_view) {
  if (finding.kind == PiiClass::Card) return "9999000011112222";
  return "<" + std::string(class_name(finding.kind)) + ">";
}

std::string rewrite(std::string_view text, size_t step = 1 << 20) {
  JsonRewriter rewriter(ClassSet::all(), mark);
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    if (!rewriter.feed(text.substr(at, step), out)) return "undecodable";
  return rewriter.finish(out) ? out : "undecodable";
}

TEST(JsonRewriter, ReplacesInStringsAndKeepsTheRest) {
  EXPECT_EQ(rewrite(R"({"to" : "a@b.org", "n":[1, 2.5e3,true ,null],"x":"\u00fc\/"} )"),
            R"({"to" : "<email>", "n":[1, 2.5e3,true ,null],"x":"\u00fc\/"} )");
  EXPECT_EQ(rewrite(R"(["write to a@b.org\nor \"c@d.org\""])"),
            R"(["write to <email>\nor \"<email>\""])");
  EXPECT_EQ(rewrite("\"a@b.org\""), "\"<email>\"");
}

TEST(JsonRewriter, DecodesEscapesBeforeLooking) {
  EXPECT_EQ(rewrite(R"({"to":"a\u0040b.org"})"), R"({"to":"<email>"})");
  EXPECT_EQ(rewrite(R"({"to":"\u0061@b.\u006frg \ud83d\ude00"})"),
            "{\"to\":\"<email> \xf0\x9f\x98\x80\"}");
}

TEST(JsonRewriter, NamesAreWordsBeforeTheirValues) {
  EXPECT_EQ(rewrite(R"({"homePhone":"4155552671","order":"4155552671"})"),
            R"({"homePhone":"<phone>","order":"4155552671"})");
  EXPECT_EQ(rewrite(R"({"phones":["4155552671","4155552672"]})"),
            R"({"phones":["<phone>","<phone>"]})");
}

TEST(JsonRewriter, NamesAreValuesToo) {
  EXPECT_EQ(rewrite(R"({"a\u0040b.org" : {"x":1}})"), R"({"<email>" : {"x":1}})");
}

TEST(JsonRewriter, NumbersStayNumbersWhereTheTokenIsOne) {
  EXPECT_EQ(rewrite(R"({"card":4111111111111111,"n":42})"), R"({"card":9999000011112222,"n":42})");
  EXPECT_EQ(rewrite(R"({"phone":4155552671})"), R"({"phone":"<phone>"})");
}

TEST(JsonRewriter, IsTheSameWhereverItIsCut) {
  const std::string text =
      "{\"to\":\"a\\u0040b.org\",\"card\" : 4111111111111111}\n{\"phone\":\"4155552671\"}\n";
  const std::string whole = rewrite(text);
  EXPECT_EQ(whole, "{\"to\":\"<email>\",\"card\" : 9999000011112222}\n{\"phone\":\"<phone>\"}\n");
  for (size_t step = 1; step < text.size(); ++step) EXPECT_EQ(rewrite(text, step), whole) << step;
}

// As a model's tool is called, and answers.
TEST(JsonRewriter, LooksIntoJsonInStrings) {
  EXPECT_EQ(rewrite(R"({"arguments":"{\"to\":\"a@b.org\",\"text\":\"x\\nc@d.org\\n\"}"})"),
            R"({"arguments":"{\"to\":\"<email>\",\"text\":\"x\\n<email>\\n\"}"})");
  // Called by its name in there, and still a number.
  EXPECT_EQ(rewrite(R"({"a":" [{\"phone\":\"4155552671\"}, 4111111111111111]"})"),
            R"({"a":" [{\"phone\":\"<phone>\"}, 9999000011112222]"})");
  EXPECT_EQ(rewrite(R"({"a":"[\"{\\\"b\\\":\\\"a@b.org\\\"}\"]"})"),
            R"({"a":"[\"{\\\"b\\\":\\\"<email>\\\"}\"]"})");
  // Without findings it stays byte for byte.
  const std::string clean = R"({"a":"{\"b\":\"\\u0041\u0020\\/\"}"})";
  EXPECT_EQ(rewrite(clean), clean);
}

TEST(JsonRewriter, WhatOnlyBeginsLikeJsonInAStringIsText) {
  EXPECT_EQ(rewrite(R"(["{\"a\": a@b.org", "[1] a@b.org", "{\"x\":\"\\ud800\"} a@b.org"])"),
            R"(["{\"a\": <email>", "[1] <email>", "{\"x\":\"\\ud800\"} <email>"])");
  EXPECT_EQ(rewrite(R"(["{\"x\":\"\\ud800 a@b.org\"}"])"), R"(["{\"x\":\"\\ud800 <email>\"}"])");
}

TEST(JsonRewriter, RefusesWhatItCannotDecode) {
  for (const std::string_view text :
       {R"({"a":"\x41"})", R"({"a":"\u12"})", R"({"a":"\ud800"})", "\"open"})
    EXPECT_EQ(rewrite(text), "undecodable") << text;
  EXPECT_EQ(rewrite("\"" + std::string(JsonRewriter::kMaxHeld + 1, 'x') + "\""), "undecodable");
  EXPECT_EQ(rewrite(std::string(JsonRewriter::kMaxNumber + 1, '1')), "undecodable");
}

}
}
