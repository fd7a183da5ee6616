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

TEST(Settings, HasAKeptDiskWithAPlaceOrNone) {
  EXPECT_FALSE(parse_settings("mvm.root=/dev/vda").kept);
  EXPECT_EQ(parse_settings("mvm.kept=/dev/vdc,/nix").kept, (KeptDisk{"/dev/vdc", "/nix"}));
  for (const char* word : {"mvm.kept=", "mvm.kept=/dev/vdc", "mvm.kept=/dev/vdc,", "mvm.kept=a,nix",
                           "kept=/dev/vdc,/nix"})
    EXPECT_FALSE(parse_settings(word).kept) << word;
}

TEST(Settings, IgnoresPortsThatAreNone) {
  for (const char* word :
       {"mvm.port=0", "mvm.port=4294967295", "mvm.port=-1", "mvm.port=", "mvm.port=x"})
    EXPECT_EQ(parse_settings(word).port, 5252U) << word;
}

TEST(Settings, HasAddressesForANetworkCardOrNone) {
  const Settings settings =
      parse_settings("mvm.ip4=100.127.255.2/30,100.127.255.1 mvm.ip6=fd6d:766d::2/64,fd6d:766d::1");
  ASSERT_TRUE(settings.ip4 && settings.ip6);
  EXPECT_EQ(settings.ip4->address.text(), "100.127.255.2");
  EXPECT_EQ(settings.ip4->length, 30U);
  EXPECT_EQ(settings.ip4->gateway.text(), "100.127.255.1");
  EXPECT_EQ(settings.ip6->gateway.text(), "fd6d:766d::1");
  for (const char* word :
       {"mvm.ip4=", "mvm.ip4=1.2.3.4", "mvm.ip4=1.2.3.4/33,1.2.3.1", "mvm.ip4=1.2.3.4/24,::1",
        "mvm.ip4=fd00::2/64,fd00::1", "mvm.ip4=1.2.3.4,1.2.3.1/24", "mvm.ip6=1.2.3.4/24,1.2.3.1"}) {
    EXPECT_FALSE(parse_settings(word).ip4) << word;
    EXPECT_FALSE(parse_settings(word).ip6) << word;
  }
}

TEST(ModuleList, IsPathsInOrder) {
  EXPECT_EQ(parse_module_list("/lib/modules/a.ko\n\n/lib/modules/b.ko"),
            (std::vector<std::string>{"/lib/modules/a.ko", "/lib/modules/b.ko"}));
  EXPECT_TRUE(parse_module_list("").empty());
}

}
