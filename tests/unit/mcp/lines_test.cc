#include "mvm/mcp/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/proto/cbor.h"

#include "../../../src/mcp/kept.h"

namespace mvm::mcp {

static std::vector<std::string> lines_of(LineBuffer& buffer, std::string_view bytes) {
  buffer.feed(bytes);
  std::vector<std::string> out;
  while (const auto line = buffer.next()) out.push_back(line->too_long ? "!" : line->text);
  return out;
}

TEST(LineBuffer, CutsLinesHoweverTheyCome) {
  LineBuffer buffer(8);
  EXPECT_THAT(lines_of(buffer, "a\n\nbc"), testing::ElementsAre("a", ""));
  EXPECT_THAT(lines_of(buffer, "d"), testing::ElementsAre());
  EXPECT_THAT(lines_of(buffer, "\nx\ny"), testing::ElementsAre("bcd", "x"));
}

TEST(LineBuffer, DropsALineThatIsTooLongAndGoesOnBehindIt) {
  LineBuffer buffer(4);
  EXPECT_THAT(lines_of(buffer, "1234\n12345\nab\n"), testing::ElementsAre("1234", "!", "ab"));
  for (int i = 0; i < 100; ++i) EXPECT_THAT(lines_of(buffer, "xxxxx"), testing::ElementsAre());
  EXPECT_THAT(lines_of(buffer, "x\nab\n"), testing::ElementsAre("!", "ab"));
}

TEST(Kept, KeepsShortOutputWhole) {
  Kept kept(8);
  kept.add("1234");
  kept.add("5678");
  EXPECT_EQ(kept.text(), "12345678");
  EXPECT_FALSE(kept.truncated());
}

TEST(Kept, KeepsTheBeginningAndTheEndOfLongOutputAndSaysWhatIsMissing) {
  for (const size_t piece : {1, 3, 7, 1000}) {
    std::string all = "begin ";
    for (int i = 0; i < 1000; ++i) all += std::to_string(i) + ' ';
    all += "end";
    Kept kept(10);
    for (size_t i = 0; i < all.size(); i += piece) kept.add(std::string_view(all).substr(i, piece));
    EXPECT_EQ(kept.text(),
              "begin\n[mvm: " + std::to_string(all.size() - 10) + " bytes left out]\n9 end");
    EXPECT_EQ(kept.bytes(), all.size());
    EXPECT_TRUE(kept.truncated());
  }
}

TEST(Kept, CutsNoCharacterInTwo) {
  std::string all;
  for (int i = 0; i < 100; ++i) all += "ü€𝄞";
  for (size_t limit = 1; limit < 40; ++limit) {
    Kept kept(limit);
    kept.add(all);
    EXPECT_TRUE(proto::is_utf8(kept.text())) << limit << ": " << kept.text();
  }
}

TEST(Kept, CountsWhatIsLeftOutExactly) {
  Kept kept(6);
  kept.add("€€€€€€");  // 18 bytes; one character fits on each side
  EXPECT_EQ(kept.text(), "€\n[mvm: 12 bytes left out]\n€");
}

TEST(CutCharacter, IsWhatIsNotWhole) {
  EXPECT_EQ(without_cut_character("ab\xE2\x82"), "ab");
  EXPECT_EQ(without_cut_character("ab\xE2\x82\xAC"), "ab\xE2\x82\xAC");
  EXPECT_EQ(without_cut_character("ab\xF0"), "ab");
  EXPECT_EQ(without_cut_character("\x80\x80\x80\x80\x80"), "\x80\x80\x80\x80\x80");
  EXPECT_EQ(without_cut_character(""), "");
}

}
