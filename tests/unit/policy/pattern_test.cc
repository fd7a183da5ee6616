#include "mvm/policy/pattern.h"

#include <array>

#include <gtest/gtest.h>

namespace mvm::policy {
namespace {

bool host_matches(std::string_view pattern, std::string_view host) {
  return HostPattern::parse(pattern).value().matches(dns::Name::parse(host).value());
}

TEST(HostPattern, MatchesTheNameOrWhatIsBelowIt) {
  EXPECT_TRUE(host_matches("example.com", "EXAMPLE.com."));
  EXPECT_FALSE(host_matches("example.com", "www.example.com"));
  EXPECT_TRUE(host_matches("*.example.com", "www.example.com"));
  EXPECT_TRUE(host_matches("*.example.com", "a.b.example.com"));
  EXPECT_FALSE(host_matches("*.example.com", "example.com"));
  EXPECT_FALSE(host_matches("*.example.com", "badexample.com"));
}

TEST(HostPattern, IsNotFooledByALengthInsideALabel) {
  // One label that ends in the bytes of "\7example\3com\0".
  const std::string odd("\x0dx\7example\3com\0", 15);
  Reader in(as_bytes(odd));
  const dns::Name name = dns::Name::read(as_bytes(odd), in);
  ASSERT_TRUE(in);
  EXPECT_FALSE(HostPattern::parse("*.example.com")->matches(name));
}

TEST(HostPattern, RefusesWhatWouldMatchTooMuchOrNothing) {
  for (const char* text : {"",
                           "*",
                           "*.",
                           "*.com",
                           "*.com.",
                           "a.*.com",
                           "*example.com",
                           "*.*.example.com",
                           ".",
                           "http://example.com",
                           "example.com/",
                           "ex ample.com",
                           "b\xc3\xbc"
                           "cher.example",
                           "*.b\xc3\xbc"
                           "cher.example",
                           "127.0.0.1",
                           "127.1",
                           "0177.0.0.1",
                           "2130706433",
                           "0x7f000001",
                           "0x",
                           "a.0x7F",
                           "1.2.3",
                           "*.1.2",
                           "host.1",
                           "example.com:443",
                           "[::1]",
                           "a..example",
                           ".example.com"})
    EXPECT_FALSE(HostPattern::parse(text)) << text;
  EXPECT_FALSE(HostPattern::parse(std::string(64, 'a') + ".example"));
  EXPECT_FALSE(HostPattern::parse(std::string(300, 'a') + ".example"));
  std::string long_name = "example";
  while (long_name.size() < 260) long_name.insert(0, "a.");
  EXPECT_FALSE(HostPattern::parse(long_name));
  // Names of other alphabets are written as they are asked for.
  EXPECT_TRUE(host_matches("xn--bcher-kva.example", "XN--Bcher-KVA.example"));
}

TEST(NormalPath, ReadsWhatEveryServerReadsAlike) {
  EXPECT_EQ(normal_path("/"), Path{""});
  EXPECT_EQ(normal_path("/a/b"), (Path{"a", "b"}));
  EXPECT_EQ(normal_path("/a/b/"), (Path{"a", "b", ""}));
  EXPECT_EQ(normal_path("/%61/b%20c?x=/../y"), (Path{"a", "b c"}));
  EXPECT_EQ(normal_path("/%C3%A4"), Path{"\xc3\xa4"});
}

TEST(NormalPath, TakesASegmentThatSaysHereForNone) {
  const std::vector<std::array<const char*, 2>> canonical{
      {"/dir/./Packages", "/dir/Packages"},
      {"/./x", "/x"},
      {"/.", "/"},
      {"/./.", "/"},
      {"/a/.", "/a/"},
      {"/a/./", "/a/"},
      {"/a/././b?x=/./y", "/a/b?x=/./y"},
      {"/%61/./b%20c", "/%61/b%20c"},
      {"/.a/b./...", "/.a/b./..."},
      {"/a?x=/.", "/a?x=/."},
  };
  for (const auto& [target, sent] : canonical) {
    EXPECT_EQ(canonical_target(target), sent);
    EXPECT_TRUE(normal_path(target)) << target;
    EXPECT_EQ(normal_path(target), normal_path(sent)) << target;
  }
  // What is read two ways stays so, and stays as it is.
  for (const char* target : {"/a/%2e/b", "/a/%2E", "/.//", "/.//a", "/a//.", "/./..", "/a/./../b",
                             "/a/./%2e%2e/b", "/a/.;/b", "/a/.\\b", "*", ""}) {
    EXPECT_FALSE(normal_path(target)) << target;
    EXPECT_EQ(canonical_target(target), target);
  }
  std::string many;
  for (size_t i = 0; i < kMaxPathSegments; ++i) many += "/./a";
  EXPECT_TRUE(normal_path(many));
  EXPECT_FALSE(normal_path(many + "/./a"));
}

TEST(NormalPath, RefusesWhatTheyDifferOn) {
  for (const char* target : {"",
                             "a",
                             "*",
                             "//",
                             "//a",
                             "/a//b",
                             "/..",
                             "/a/../b",
                             "/a/%2e%2e/b",
                             "/a/.%2E",
                             "/a%2fb",
                             "/a%2Fb",
                             "/a\\b",
                             "/a%5cb",
                             "/%252e%252e/",
                             "/a;x=1/b",
                             "/..;/b",
                             "/a%3bx",
                             "/%",
                             "/%4",
                             "/%zz",
                             "/a%00",
                             "/a%0a",
                             "/a%7f",
                             "/a#b",
                             "/%c0%ae",
                             "/%ed%a0%80",
                             "/%f5%80%80%80",
                             "/%e4"})
    EXPECT_FALSE(normal_path(target)) << target;
  std::string deep;
  for (size_t i = 0; i <= kMaxPathSegments; ++i) deep += "/a";
  EXPECT_FALSE(normal_path(deep));
  EXPECT_TRUE(normal_path(deep.substr(2)));
}

bool path_matches(std::string_view pattern, std::string_view target) {
  return PathPattern::parse(pattern).value().matches(normal_path(target).value());
}

TEST(PathPattern, MatchesSegmentBySegment) {
  EXPECT_TRUE(path_matches("/v1/models", "/v1/models"));
  EXPECT_TRUE(path_matches("/v1/models", "/v1/%6dodels?limit=2"));
  EXPECT_FALSE(path_matches("/v1/models", "/v1/models/"));
  EXPECT_FALSE(path_matches("/v1/models", "/v1/Models"));
  EXPECT_TRUE(path_matches("/repos/*/issues", "/repos/x/issues"));
  EXPECT_FALSE(path_matches("/repos/*/issues", "/repos/x/y/issues"));
  EXPECT_FALSE(path_matches("/repos/*", "/repos/"));
  EXPECT_TRUE(path_matches("/v1/**", "/v1"));
  EXPECT_TRUE(path_matches("/v1/**", "/v1/"));
  EXPECT_TRUE(path_matches("/v1/**", "/v1/a/b/c"));
  EXPECT_FALSE(path_matches("/v1/**", "/v10"));
  EXPECT_TRUE(path_matches("/**", "/"));
  EXPECT_TRUE(path_matches("/a%2Ab", "/a*b"));
}

TEST(PathPattern, RefusesStarsThatWouldNotMeanWhatTheySeemTo) {
  for (const char* text : {"", "v1", "/a*", "/**/b", "/a/***", "/x?y", "/x#y", "/a/../b", "//**",
                           "/./a", "/a/.", "/a/./*", "/./**"})
    EXPECT_FALSE(PathPattern::parse(text)) << text;
}

TEST(PathPattern, IsReadBackAsItIsWritten) {
  for (const char* text : {"/", "/**", "/a/*/b", "/a/**", "/a%20b", "/%2A/%3Fx", "/a/"}) {
    const auto pattern = PathPattern::parse(text);
    ASSERT_TRUE(pattern) << text;
    EXPECT_EQ(pattern->text(), text);
  }
}

}
}
