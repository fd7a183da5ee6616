#include "mvm/secret/stream.h"

#include <gtest/gtest.h>

#include "mvm/secret/text.h"

namespace mvm::secret {
namespace {

constexpr std::string_view kValue = "sk-live/0123456789";

Finder finder() {
  Finder out;
  out.add(kValue, 0, Finder::Written::Twice);
  return out;
}

std::string in_steps(const Finder& finder, std::string_view text, size_t step,
                     size_t* most = nullptr) {
  Bytes out;
  Stream stream(finder, [](const Finder::Hit&, std::string_view, Bytes& to) {
    for (const char c : std::string_view("[S]")) to.push_back(static_cast<std::byte>(c));
    return true;
  });
  for (size_t at = 0; at < text.size(); at += step) {
    EXPECT_TRUE(stream.feed(text.substr(at, step), false, out));
    if (most != nullptr) *most = std::max(*most, stream.held());
  }
  EXPECT_TRUE(stream.feed({}, true, out));
  return std::string(as_text(out));
}

TEST(Stream, GivesTheSameHoweverTheTextIsCut) {
  const Finder found = finder();
  const std::string text =
      "a " + std::string(kValue) + " b " + secret::written(kValue, Writing::Percent) + " c " +
      base64("user:" + std::string(kValue)) + " sk-live/012 " + std::string(kValue);
  const std::string whole = in_steps(found, text, text.size());
  EXPECT_EQ(whole.find("[S]"), 2U);
  EXPECT_EQ(whole.find("0123456789"), std::string::npos);
  for (size_t step = 1; step < text.size(); ++step)
    EXPECT_EQ(in_steps(found, text, step), whole) << step;
}

TEST(Stream, GivesTheSameHoweverUtf16IsCut) {
  const Finder found = finder();
  for (const Units units : {Units::Little, Units::Big}) {
    const std::string text =
        in_units("a " + std::string(kValue) + " b \\u0073k-live\\/0123456789 sk-live/01 c", units);
    for (size_t step = 1; step <= text.size(); ++step) {
      Bytes out;
      Stream stream(found, [](const Finder::Hit& hit, std::string_view, Bytes& to) {
        for (const char c : in_units("[S]", hit.units)) to.push_back(static_cast<std::byte>(c));
        return true;
      });
      for (size_t at = 0; at < text.size(); at += step)
        stream.feed(text.substr(at, step), false, out);
      stream.feed({}, true, out);
      EXPECT_EQ(as_text(out), in_units("a [S] b [S] sk-live/01 c", units)) << step;
    }
  }
}

TEST(Stream, HoldsBackNoMoreThanABeginning) {
  const Finder found = finder();
  size_t most = 0;
  std::string text(1 << 20, 'x');
  text += kValue.substr(0, 10);
  in_steps(found, text, 4096, &most);
  EXPECT_EQ(most, 10U);
}

TEST(Stream, GivesBytesThatAreNoTextAsTheyCame) {
  const Finder found = finder();
  std::string bytes;
  uint32_t state = 1;
  for (int i = 0; i < 200'000; ++i) {
    state = state * 1664525U + 1013904223U;
    bytes += static_cast<char>(state >> 24);
  }
  EXPECT_EQ(in_steps(found, bytes, 1000), bytes);
}

TEST(Stream, PassesNothingOnceItIsRefused) {
  const Finder found = finder();
  Stream stream(found, [](const Finder::Hit&, std::string_view, Bytes&) { return false; });
  Bytes out;
  EXPECT_FALSE(stream.feed("first " + std::string(kValue) + " second", false, out));
  EXPECT_EQ(as_text(out), "first ");
  EXPECT_FALSE(stream.feed("third", true, out));
  EXPECT_EQ(as_text(out), "first ");
}

}
}
