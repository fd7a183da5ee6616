#include "mvm/json/json.h"

#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::json {
namespace {

Error refusal(std::string_view text, const Limits& limits = {}) {
  try {
    parse(text, "it", limits);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "taken: " << text.substr(0, 80);
  return {Kind::Internal, ""};
}

std::string nested(int levels) {
  return std::string(static_cast<size_t>(levels), '[') +
         std::string(static_cast<size_t>(levels), ']');
}

TEST(Json, IsTakenUpToItsLimitsAndNotBeyond) {
  EXPECT_NO_THROW(parse("[123]", "it", {.bytes = 5}));
  const Error larger = refusal("[1234]", {.bytes = 5});
  EXPECT_EQ(larger.kind(), Kind::Exhausted);
  EXPECT_EQ(larger.message(), "it is larger than 5 B");

  EXPECT_NO_THROW(parse(nested(4), "it", {.depth = 4}));
  EXPECT_EQ(refusal(nested(6), {.depth = 4}).message(), "it is nested too deep");
  EXPECT_EQ(refusal(std::string(1 << 20, '[')).kind(), Kind::Invalid);
  EXPECT_EQ(refusal(R"({"a":)" + nested(40) + "}").kind(), Kind::Invalid);

  EXPECT_NO_THROW(parse("[1,2,3]", "it", {.values = 6}));
  EXPECT_EQ(refusal("[1,2,3,4,5,6,7]", {.values = 6}).message(), "it holds too many values");
}

TEST(Json, WithAKeyTwiceIsRefused) {
  const Error error = refusal(R"({"a":{"b":1,"c":2,"b":3}})");
  EXPECT_EQ(error.kind(), Kind::Invalid);
  EXPECT_EQ(error.message(), "it: key \"b\" is there twice");
  EXPECT_NO_THROW(parse(R"({"a":{"a":1},"b":{"a":1}})", "it"));
  EXPECT_NO_THROW(parse(R"([{"a":1},{"a":1}])", "it"));
  // The same name, however it is written.
  EXPECT_EQ(refusal(R"({"a":1,"\u0061":2})").kind(), Kind::Invalid);
}

TEST(Json, ThatIsNoneIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal("{\"a\": 1,}").message(), "it: not valid JSON, near byte 9");
  for (const char* text : {"", "{", "nul", "1 2", "\"\xff\"", "[1e999]", "\"\\ud800\""})
    EXPECT_EQ(refusal(text).kind(), Kind::Invalid) << text;
}

TEST(Json, ThatIsNoObjectIsNothing) {
  EXPECT_EQ(parse_object(R"({"a":1})")->at("a").get<int>(), 1);
  for (const char* text : {"", "[]", "1", "null", "{\"a\":1,\"a\":2}", "{"})
    EXPECT_FALSE(parse_object(text)) << text;
}

TEST(Json, IsWrittenWhateverTheTextHolds) {
  EXPECT_EQ(dump(Value{{"b", "\xff"}, {"a", 1}}), "{\"a\":1,\"b\":\"\xef\xbf\xbd\"}");
  EXPECT_EQ(dump(Ordered{{"b", 1}, {"a", 2}}), "{\"b\":1,\"a\":2}");
  EXPECT_EQ(dump(Value{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

}
}
