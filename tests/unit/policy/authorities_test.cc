#include "mvm/policy/authorities.h"

#include <gtest/gtest.h>

namespace mvm::policy {
namespace {

TEST(Authorities, AreOfAHostOrOfEvery) {
  const auto one = parse_authority("*.corp.example=/etc/ssl/a=b.pem");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->host->text(), "*.corp.example");
  EXPECT_EQ(one->file, "/etc/ssl/a=b.pem");
  const auto every = parse_authority("*=/ca.pem");
  ASSERT_TRUE(every);
  EXPECT_FALSE(every->host);
}

TEST(Authorities, RefuseWhatIsNeither) {
  for (const char* text : {"", "=", "*", "/ca.pem", "=/ca.pem", "*=", "a b=/ca.pem",
                           "*.com=/ca.pem", "10.0.0.1=/ca.pem"}) {
    EXPECT_FALSE(parse_authority(text)) << text;
    EXPECT_TRUE(authority_complaint(text)) << text;
  }
  EXPECT_FALSE(parse_authority(std::string("*=/a\0b", 6)));
  EXPECT_FALSE(authority_complaint("a.example=/ca.pem"));
}

TEST(Authorities, AreAtAnAbsolutePathOnceTheyArePlaced) {
  EXPECT_FALSE(placed_authority_complaint("a.example=/ca.pem"));
  for (const char* text : {"*=ca.pem", "*=./ca.pem", "*=~/ca.pem", "*=", "ca.pem"})
    EXPECT_TRUE(placed_authority_complaint(text)) << text;
  EXPECT_FALSE(authority_complaint("*=ca.pem"));
}

}
}
