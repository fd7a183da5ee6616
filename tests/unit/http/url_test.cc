#include "mvm/http/url.h"

#include <gtest/gtest.h>

namespace mvm::http {

TEST(Percent, RoundTripsEveryByteButZero) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
}

TEST(Percent, RefusesBadEscapes) {
  for (const std::string_view text : {"%", "%4", "%4g", "%g4", "a%", "%00", "%%41"})
    EXPECT_FALSE(percent_decode(text)) << text;
}

TEST(Target, SplitsPathAndQuery) {
  const auto target = parse_target("/v1/images/a%2Fb?force=true&x=%26&flag");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, (std::vector<std::string>{"v1", "images", "a/b"}));
  EXPECT_EQ(target->query, (std::vector<std::pair<std::string, std::string>>{
                               {"force", "true"}, {"x", "&"}, {"flag", ""}}));
}

TEST(Target, RefusesAmbiguousPaths) {
  for (const std::string_view text :
       {"", "v1", "/", "//v1", "/v1/", "/v1//x", "/v1/../x", "/v1/%2e%2e/x", "/v1/.", "/v1/%zz",
        "/v1?=x", "/v1?a=%", "http://x/v1", "/v1#x"})
    EXPECT_FALSE(parse_target(text)) << text;
}

TEST(Target, ParameterLimitIsExact) {
  std::string text = "/x?a";
  for (size_t at = 1; at < kMaxQueryParameters; ++at) text += "&a";
  EXPECT_TRUE(parse_target(text));
  EXPECT_FALSE(parse_target(text + "&a"));
}

}
