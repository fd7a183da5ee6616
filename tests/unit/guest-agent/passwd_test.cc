#include "passwd.h"

#include <string>

#include <gtest/gtest.h>

namespace mvm::guest {

static constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "# a comment\n"
    "broken:x:notanumber:0::/:/bin/sh\n"
    "short:x:7\n"
    "dev:x:1000:1001:Developer,,,:/home/dev:/bin/zsh\n"
    "2000:x:2001:2001::/named-like-a-number:/bin/sh\n"
    "huge:x:4294967295:0::/:/bin/sh\n"
    "bare:x:5:5:::\n"
    "last:x:9:9::/last:/bin/last";  // no newline at the end
static constexpr std::string_view kGroup =
    "root:x:0:\n"
    "dev:x:1001:\n"
    "docker:x:999:other,dev\n"
    "sudo:x:27:dev,root\n"
    "again:x:999:dev\n"
    "devs:x:1002:develop\n"
    "empty::3:\n";

static Identity found(std::string_view spec) {
  const auto identity = find_identity(spec, kPasswd, kGroup);
  EXPECT_TRUE(identity) << spec;
  return identity ? *identity : Identity{};
}

TEST(Passwd, FindsByName) {
  const Identity dev = found("dev");
  EXPECT_EQ(dev.uid, 1000U);
  EXPECT_EQ(dev.gid, 1001U);
  EXPECT_EQ(dev.groups, (std::vector<gid_t>{1001, 999, 27}));
  EXPECT_EQ(dev.name, "dev");
  EXPECT_EQ(dev.home, "/home/dev");
  EXPECT_EQ(dev.shell, "/bin/zsh");
  EXPECT_EQ(found("last").home, "/last");
}

TEST(Passwd, FindsByNumberAndFillsInTheAccount) {
  EXPECT_EQ(found("1000").name, "dev");
  EXPECT_EQ(found("0").home, "/root");
}

TEST(Passwd, TakesNumbersWithoutAnAccount) {
  const Identity nobody = found("31337");
  EXPECT_EQ(nobody.uid, 31337U);
  EXPECT_EQ(nobody.gid, 0U);
  EXPECT_EQ(nobody.name, "");
  EXPECT_EQ(nobody.home, "/");
  // A group without members is not a group of nobody's.
  EXPECT_EQ(nobody.groups, std::vector<gid_t>{0});
}

TEST(Passwd, PrefersANameOverANumber) { EXPECT_EQ(found("2000").uid, 2001U); }

TEST(Passwd, GivenGroupReplacesAllOthers) {
  const Identity named = found("dev:docker");
  EXPECT_EQ(named.gid, 999U);
  EXPECT_EQ(named.groups, std::vector<gid_t>{999});
  EXPECT_EQ(found("1000:4242").gid, 4242U);
}

TEST(Passwd, HasDefaultsForEmptyFields) {
  EXPECT_EQ(found("bare").home, "/");
  EXPECT_EQ(found("bare").shell, "/bin/sh");
}

TEST(Passwd, RefusesWhatIsNotThere) {
  for (const std::string_view spec :
       {"nobody", "", ":", ":root", "dev:nogroup", "dev:", "broken", "short", "-1", "4294967295",
        "99999999999", "huge", "dev ", "1000:4294967295", "# a comment"})
    EXPECT_FALSE(find_identity(spec, kPasswd, kGroup)) << spec;
  EXPECT_EQ(find_identity("x\x1b[31m", kPasswd, kGroup).error(),
            "no user 'x\\x1b[31m' in the sandbox's /etc/passwd");
}

TEST(Passwd, BoundsTheNumberOfGroups) {
  std::string group;
  for (int i = 0; i < 3000; ++i)
    group += "g" + std::to_string(i) + ":x:" + std::to_string(5000 + i) + ":dev\n";
  const auto identity = find_identity("dev", kPasswd, group);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->groups.size(), kMaxSupplementaryGroups);
}

}
