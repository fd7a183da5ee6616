#include "settings.h"

#include <gtest/gtest.h>

#include "modules.h"

namespace mvm::guest {

TEST(Settings, ReadsItsOwnWordsOfTheCommandLine) {
  const Settings settings = parse_settings(
      "console=ttyS0 quiet mvm.root=/dev/vda mvm.overlay=/dev/vdb mvm.hostname=box mvm.port=99 "
      "mvm.log=debug mvm.overlay_size=64M\n");
  EXPECT_EQ(settings.root, "/dev/vda");
  EXPECT_EQ(settings.overlay, "/dev/vdb");
  EXPECT_EQ(settings.hostname, "box");
  EXPECT_EQ(settings.port, 99U);
  EXPECT_EQ(settings.overlay_size, "64M");
  EXPECT_TRUE(settings.verbose);
}

TEST(Settings, HasDefaultsAndTakesTheLastWord) {
  const Settings settings =
      parse_settings("quiet mvm.root=/dev/a mvm.root=/dev/b xmvm.root=/dev/c");
  EXPECT_EQ(settings.root, "/dev/b");
  EXPECT_EQ(settings.overlay, "");
  EXPECT_EQ(settings.hostname, "sandbox");
  EXPECT_EQ(settings.port, 5252U);
  EXPECT_FALSE(settings.verbose);
}

TEST(Settings, IgnoresPortsThatAreNone) {
  for (const char* word :
       {"mvm.port=0", "mvm.port=4294967295", "mvm.port=-1", "mvm.port=", "mvm.port=x"})
    EXPECT_EQ(parse_settings(word).port, 5252U) << word;
}

TEST(ModuleList, IsPathsInOrder) {
  EXPECT_EQ(parse_module_list("/lib/modules/a.ko\n\n/lib/modules/b.ko"),
            (std::vector<std::string>{"/lib/modules/a.ko", "/lib/modules/b.ko"}));
  EXPECT_TRUE(parse_module_list("").empty());
}

}
