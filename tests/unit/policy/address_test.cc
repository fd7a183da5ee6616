#include "mvm/policy/address.h"

#include <gtest/gtest.h>

namespace mvm::policy {
namespace {

std::string_view judged(std::string_view text) {
  const auto reason = restriction(IpAddress::parse(text).value());
  return reason ? reason_word(*reason) : "public";
}

TEST(Restriction, KnowsWhatIsNotThePublicInternet) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"8.8.8.8", "public"},
      {"127.0.0.1", "loopback"},
      {"127.255.255.255", "loopback"},
      {"0.0.0.0", "special_purpose"},
      {"0.1.2.3", "special_purpose"},
      {"10.0.0.1", "private_range"},
      {"172.15.255.255", "public"},
      {"172.16.0.1", "private_range"},
      {"172.32.0.0", "public"},
      {"192.168.1.1", "private_range"},
      {"100.64.0.1", "shared_address_space"},
      {"100.128.0.0", "public"},
      {"169.254.1.1", "link_local"},
      {"224.0.0.1", "special_purpose"},
      {"255.255.255.255", "special_purpose"},
      {"198.19.0.1", "special_purpose"},
      {"::", "special_purpose"},
      {"::1", "loopback"},
      {"fe80::1", "link_local"},
      {"fd12:3456::1", "private_range"},
      {"ff02::1", "special_purpose"},
      {"2001:db8::1", "special_purpose"},
      {"2606:4700::1111", "public"},
  };
  for (const auto& [address, reason] : cases) EXPECT_EQ(judged(address), reason) << address;
}

TEST(Restriction, KnowsWhereCloudsKeepCredentials) {
  for (const char* address : {"169.254.169.254", "169.254.170.2", "fd00:ec2::254",
                              "100.100.100.200", "168.63.129.16", "192.0.0.192"})
    EXPECT_EQ(judged(address), "cloud_metadata") << address;
}

TEST(Restriction, LooksIntoAddressesThatCarryAnother) {
  for (const char* address :
       {"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:10.0.0.1", "::127.0.0.1",
        "64:ff9b::10.0.0.1", "64:ff9b:1::192.168.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",  // Teredo, 127.0.0.1 inverted
        "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1"})
    EXPECT_EQ(judged(address), "embedded_restricted") << address;
  for (const char* address : {"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
                              "2001:0:4136:e378:8000:63bf:f7f7:f7f7"})
    EXPECT_EQ(judged(address), "public") << address;
  EXPECT_EQ(embedded_v4(*IpAddress::parse("2001:0:4136:e378:8000:63bf:3fff:fdd2"))->text(),
            "192.0.2.45");  // the example of RFC 4380 §4
}

}
}
