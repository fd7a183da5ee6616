#include "mvm/proto/cbor.h"

#include <string>

#include <gtest/gtest.h>

#include "mvm/base/text.h"

namespace mvm::proto {

static Bytes raw(std::string_view text) {
  const auto view = as_bytes(text);
  return {view.begin(), view.end()};
}

TEST(CborWriter, WritesTheShortestForm) {
  // Values from RFC 8949 Appendix A.
  const auto number = [](int64_t value) {
    Bytes out;
    CborWriter(out).integer(value);
    return hex(out);
  };
  EXPECT_EQ(number(0), "00");
  EXPECT_EQ(number(23), "17");
  EXPECT_EQ(number(24), "1818");
  EXPECT_EQ(number(255), "18ff");
  EXPECT_EQ(number(256), "190100");
  EXPECT_EQ(number(1000000), "1a000f4240");
  EXPECT_EQ(number(1000000000000), "1b000000e8d4a51000");
  EXPECT_EQ(number(-1), "20");
  EXPECT_EQ(number(-1000), "3903e7");
  EXPECT_EQ(number(INT64_MIN), "3b7fffffffffffffff");
}

TEST(Cbor, RoundTripsEveryKind) {
  Bytes out;
  CborWriter writer(out);
  writer.unsigned_integer(UINT64_MAX);
  writer.integer(INT64_MIN);
  writer.string("h\xC3\xA9");
  writer.string("\xFF\xFE");
  writer.boolean(true);
  writer.boolean(false);
  writer.array(2);
  writer.null();
  writer.map(0);
  CborReader in(out);
  EXPECT_EQ(in.unsigned_integer(), UINT64_MAX);
  EXPECT_EQ(in.integer(), INT64_MIN);
  EXPECT_EQ(in.string(10), "h\xC3\xA9");
  EXPECT_EQ(in.string(10), "\xFF\xFE");
  EXPECT_TRUE(in.boolean());
  EXPECT_FALSE(in.boolean());
  EXPECT_EQ(in.array(2), 2U);
  EXPECT_EQ(in.skip().size(), 1U);
  EXPECT_EQ(in.map(0), 0U);
  EXPECT_TRUE(in);
  EXPECT_TRUE(in.at_end());
}

TEST(CborReader, IsStickyAfterTheFirstFault) {
  const Bytes data = raw("\x01\xFF\x01");
  CborReader in(data);
  EXPECT_EQ(in.unsigned_integer(), 1U);
  EXPECT_EQ(in.unsigned_integer(), 0U);
  EXPECT_EQ(in.unsigned_integer(), 0U);
  EXPECT_FALSE(in);
}

TEST(CborReader, HoldsItsLimitsAtTheBound) {
  const auto string_of = [](size_t size) {
    Bytes out;
    CborWriter(out).string(std::string(size, 'a'));
    return out;
  };
  const Bytes ten = string_of(10);
  EXPECT_EQ(CborReader(ten).string(10).size(), 10U);
  CborReader over(ten);
  EXPECT_EQ(over.string(9), "");
  EXPECT_FALSE(over);

  const Bytes number = raw("\x18\x64");
  EXPECT_EQ(CborReader(number).unsigned_integer(100), 100U);
  CborReader low(number);
  low.unsigned_integer(99);
  EXPECT_FALSE(low);

  const Bytes list = raw("\x83\x01\x02\x03");
  EXPECT_EQ(CborReader(list).array(3), 3U);
  CborReader few(list);
  few.array(2);
  EXPECT_FALSE(few);
}

TEST(CborReader, SkipsToTheDepthLimitAndNoFurther) {
  const auto nested = [](size_t depth) {
    Bytes out;
    for (size_t i = 0; i < depth; ++i) CborWriter(out).array(1);
    CborWriter(out).null();
    return out;
  };
  const Bytes deepest = nested(kMaxCborDepth);
  EXPECT_EQ(CborReader(deepest).skip().size(), deepest.size());
  const Bytes too_deep = nested(kMaxCborDepth + 1);
  CborReader in(too_deep);
  EXPECT_TRUE(in.skip().empty());
  EXPECT_FALSE(in);
  // However deep: no recursion, no stack to overflow.
  const Bytes absurd = nested(1000000);
  CborReader deep(absurd);
  deep.skip();
  EXPECT_FALSE(deep);
}

TEST(CborReader, SkipStepsOverExactlyOneItem) {
  Bytes out;
  CborWriter writer(out);
  writer.map(2);
  writer.string("a");
  writer.array(3);
  writer.integer(1);
  writer.map(0);
  writer.string("x");
  writer.string("b");
  writer.boolean(true);
  writer.integer(42);
  CborReader in(out);
  EXPECT_EQ(in.skip().size(), out.size() - 2);
  EXPECT_EQ(in.integer(), 42);
}

struct Hostile {
  const char* what;
  std::string bytes;
};

TEST(CborReader, RefusesHostileItems) {
  const Hostile cases[] = {
      {"nothing", ""},
      {"a cut number", "\x1A\x01\x02"},
      {"a cut string",
       "\x65"
       "abc"},
      {"a string of 2^64-1 bytes", std::string("\x7B") + std::string(8, '\xFF')},
      {"an array of 2^64-1 items", std::string("\x9B") + std::string(8, '\xFF')},
      {"a map of 2^63 pairs, whose items overflow",
       std::string("\xBB\x80") + std::string(7, '\0') + "aa"},
      {"an indefinite string", "\x7F\x61\x61\xFF"},
      {"an indefinite array", "\x9F\x01\xFF"},
      {"a stray break", "\xFF"},
      {"a reserved length", "\x1C"},
      {"a tag", "\xC0\x01"},
      {"a half float", std::string("\xF9\x3C\x00", 3)},
      {"a double", std::string("\xFB\x3F\xF0\0\0\0\0\0\0", 9)},
      {"undefined", "\xF7"},
      {"a text string that is not UTF-8", "\x62\xC3\x28"},
  };
  for (const auto& hostile : cases) {
    const Bytes data = raw(hostile.bytes);
    CborReader in(data);
    in.skip();
    EXPECT_FALSE(in) << hostile.what;
  }
}

TEST(CborReader, RefusesTheWrongKind) {
  const Bytes text =
      raw("\x61"
          "a");
  const auto refuses = [&](auto read) {
    CborReader in(text);
    read(in);
    return !in;
  };
  EXPECT_TRUE(refuses([](CborReader& in) { in.unsigned_integer(); }));
  EXPECT_TRUE(refuses([](CborReader& in) { in.integer(); }));
  EXPECT_TRUE(refuses([](CborReader& in) { in.boolean(); }));
  EXPECT_TRUE(refuses([](CborReader& in) { in.array(9); }));
  EXPECT_TRUE(refuses([](CborReader& in) { in.map(9); }));
  const Bytes number = raw("\x01");
  CborReader in(number);
  in.string(9);
  EXPECT_FALSE(in);
}

TEST(Fields, RefusesANameThatComesTwice) {
  const Bytes data =
      raw("\xA2\x61"
          "a\x01\x61"
          "a\x02");
  CborReader in(data);
  for (Fields field(in); field.next();) field.skip();
  EXPECT_FALSE(in);
}

TEST(Fields, BoundsTheirNumber) {
  const auto map_of = [](size_t count) {
    Bytes out;
    CborWriter writer(out);
    writer.map(count);
    for (size_t i = 0; i < count; ++i) {
      writer.string("f" + std::to_string(i));
      writer.null();
    }
    return out;
  };
  const Bytes most = map_of(kMaxMapFields);
  CborReader in(most);
  size_t count = 0;
  for (Fields field(in); field.next(); ++count) field.skip();
  EXPECT_EQ(count, kMaxMapFields);
  EXPECT_TRUE(in);
  const Bytes more = map_of(kMaxMapFields + 1);
  CborReader over(more);
  for (Fields field(over); field.next();) field.skip();
  EXPECT_FALSE(over);
}

TEST(Utf8, AcceptsAndRefuses) {
  for (const char* good : {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
                           "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_utf8(good));
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xC3", "\xE2\x82", "a\xFFz"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST(Cbor, MapsOfEveryAllowedSizeAreReadBack) {
  for (size_t count = 0; count <= kMaxMapFields; ++count) {
    Bytes out;
    {
      MapWriter map(out);
      for (size_t i = 0; i < count; ++i) map.unsigned_integer("field" + std::to_string(i), i);
    }
    CborReader in(out);
    size_t seen = 0;
    for (Fields field(in); field.next(); ++seen) {
      EXPECT_TRUE(field.is("field" + std::to_string(seen)));
      EXPECT_EQ(in.unsigned_integer(), seen);
    }
    EXPECT_EQ(seen, count);
    EXPECT_TRUE(in && in.at_end());
  }
}

}
