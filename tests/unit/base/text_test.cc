#include "mvm/base/text.h"

#include <array>

#include <gtest/gtest.h>

#include "mvm/base/bytes.h"
#include "mvm/base/checked.h"

namespace mvm {

TEST(Name, AcceptsWhatIsSafeAsAFileNameAndRefusesTheRest) {
  EXPECT_FALSE(name_complaint("agent-sandbox_1.2"));
  EXPECT_FALSE(name_complaint(std::string(kMaxName, 'a')));
  for (const std::string& bad :
       {std::string(), std::string("a/b"), std::string(".."), std::string(".hidden"),
        std::string("-flag"), std::string("a b"), std::string("a\nb"), std::string("é"),
        std::string(300, 'a'), std::string(kMaxName + 1, 'a')})
    EXPECT_TRUE(name_complaint(bad)) << bad;
}

TEST(Nearest, FindsPlausibleSlipsOnly) {
  constexpr std::array<std::string_view, 3> kKeys = {"cpus", "mem", "image"};
  EXPECT_EQ(nearest("memm", kKeys), "mem");
  EXPECT_EQ(nearest("cpsu", kKeys), "cpus");
  EXPECT_EQ(nearest("imgae", kKeys), "image");
  EXPECT_FALSE(nearest("network", kKeys));
}

TEST(Size, ReadsBinaryMultiples) {
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("768M"), 768U << 20);
  EXPECT_EQ(parse_size("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(parse_size("1kb"), 1024U);
  for (const auto* bad :
       {"", "M", "1.5G", "-1", "1X", "99999999999999999999", "18446744073709551615K", "1 G"})
    EXPECT_FALSE(parse_size(bad)) << bad;
  EXPECT_EQ(format_size(768U << 20), "768 MiB");
  EXPECT_EQ(format_size(1536), "1.5 KiB");
}

TEST(Duration, ReadsUnitsAndPlainSeconds) {
  EXPECT_EQ(parse_duration_ms("30"), 30'000U);
  EXPECT_EQ(parse_duration_ms("1m30s"), 90'000U);
  EXPECT_EQ(parse_duration_ms("500ms"), 500U);
  for (const auto* bad : {"", "s", "1.5s", "-1s", "1y", "18446744073709551615h"})
    EXPECT_FALSE(parse_duration_ms(bad)) << bad;
}

TEST(Printable, LeavesNoEscapeSequence) {
  EXPECT_EQ(printable("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
}

TEST(Reader, IsStickyAfterAShortRead) {
  const std::array<std::byte, 3> data = {std::byte{1}, std::byte{2}, std::byte{3}};
  Reader in(data);
  EXPECT_EQ(in.u16(), 0x0201);
  EXPECT_TRUE(in);
  EXPECT_EQ(in.u32(), 0U);
  EXPECT_FALSE(in);
  EXPECT_EQ(in.u8(), 0);
}

TEST(InBounds, DoesNotWrap) {
  EXPECT_TRUE(in_bounds(10, 0, 10));
  EXPECT_FALSE(in_bounds(10, 1, 10));
  EXPECT_FALSE(in_bounds(UINT64_MAX, 2, 10));
  EXPECT_FALSE(in_bounds(1, UINT64_MAX, 10));
}

}
