#include "mvm/obs/log.h"

#include <array>
#include <regex>

#include <unistd.h>

#include <gtest/gtest.h>

namespace mvm::obs {

class LogTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(ends_.data()), 0); }
  void TearDown() override { ::close(ends_[0]); }

  // All that was written.
  std::string text() {
    ::close(ends_[1]);
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(ends_[0], buffer.data(), buffer.size());
    return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }
  std::array<int, 2> ends_{};
};

TEST_F(LogTest, WritesOneLineWithTimeLevelAndFields) {
  Log(ends_[1], Level::Info).info("sandbox started", {{"name", "web"}, {"took_ms", uint64_t{41}}});
  const std::string line = text();
  EXPECT_TRUE(std::regex_match(
      line,
      std::regex(
          R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info    sandbox started name=web took_ms=41\n)")))
      << line;
}

TEST_F(LogTest, LeavesOutWhatIsBelowItsLevel) {
  const Log log(ends_[1], Level::Warning);
  log.debug("a");
  log.info("b");
  log.error("c");
  EXPECT_TRUE(text().ends_with("error   c\n"));
}

TEST_F(LogTest, HostileTextStaysOneFieldOfOneLine) {
  Log(ends_[1], Level::Info).info("x", {{"name", "a\nb level=error \x1b[31m \"q"}});
  const std::string line = text();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_NE(line.find("name=\"a\\x0ab level=error \\x1b[31m \\\"q\"\n"), std::string::npos) << line;
}

TEST_F(LogTest, TextIsNoFormatString) {
  Log(ends_[1], Level::Info).info("{} %v", {{"v", "{0}{:d}%n"}});
  EXPECT_TRUE(text().ends_with(" {} %v v={0}{:d}%n\n"));
}

TEST_F(LogTest, CutsLongValues) {
  Log(ends_[1], Level::Info).info("x", {{"v", std::string(3000, 'y')}});
  EXPECT_LT(text().size(), kMaxValue + 100);
}

}
