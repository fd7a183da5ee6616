#include "mvm/base/ip.h"

#include <gtest/gtest.h>

namespace mvm {
namespace {

std::string again(std::string_view text) {
  const auto address = IpAddress::parse(text);
  return address ? address->text() : "none";
}

TEST(IpAddress, IsPrintedInTheOneFormOfRfc5952) {
  EXPECT_EQ(again("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(again("::"), "::");
  EXPECT_EQ(again("::1"), "::1");
  EXPECT_EQ(again("2001:DB8:0:0:1:0:0:1"), "2001:db8::1:0:0:1");
  EXPECT_EQ(again("2001:db8:0:1:1:1:1:1"), "2001:db8:0:1:1:1:1:1");
  EXPECT_EQ(again("fe80:0:0:0:0:0:0:0"), "fe80::");
  EXPECT_EQ(again("1:0:0:2:0:0:0:3"), "1:0:0:2::3");
  EXPECT_EQ(again("::ffff:192.0.2.1"), "::ffff:c000:201");
  EXPECT_EQ(again("0001:0020:0300:4000:a:b:c:d"), "1:20:300:4000:a:b:c:d");
}

TEST(IpAddress, RefusesWhatReadersDifferOn) {
  for (const char* text :
       {"",           "1",          "1.2.3",        "1.2.3.4.5", "01.2.3.4",
        "0x7f.0.0.1", "2130706433", "256.1.1.1",    "1.2.3.4 ",  " 1.2.3.4",
        "1.2.3.4:80", "[::1]",      "fe80::1%eth0", "::1::",     ":1",
        "1:",         "1:2",        "12345::",      "1.2.3.4/8", "1:2:3:4:5:6:7:8:9"})
    EXPECT_EQ(again(text), "none") << text;
  EXPECT_EQ(again(std::string_view("1.2.3.4\0x", 9)), "none");
}

TEST(IpAddress, AMappedAddressIsNotTheAddressInIt) {
  EXPECT_NE(IpAddress::parse("::ffff:192.0.2.1"), IpAddress::parse("192.0.2.1"));
  EXPECT_FALSE(IpAddress::parse("::ffff:192.0.2.1")->is_v4());
}

TEST(IpPrefix, ContainsWhatSharesItsBits) {
  const auto has = [](std::string_view prefix, std::string_view address) {
    return IpPrefix::parse(prefix)->contains(*IpAddress::parse(address));
  };
  EXPECT_TRUE(has("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(has("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(has("172.16.0.0/12", "172.31.255.255"));
  EXPECT_FALSE(has("172.16.0.0/12", "172.32.0.0"));
  EXPECT_TRUE(has("0.0.0.0/0", "255.255.255.255"));
  EXPECT_FALSE(has("0.0.0.0/0", "::"));
  EXPECT_TRUE(has("fe80::/10", "febf::1"));
  EXPECT_FALSE(has("fe80::/10", "fec0::1"));
  EXPECT_TRUE(has("192.0.2.7", "192.0.2.7"));
  EXPECT_FALSE(has("192.0.2.7", "192.0.2.6"));
  EXPECT_FALSE(has("::ffff:0:0/96", "10.0.0.1"));
}

TEST(IpPrefix, RefusesBitsBeyondItsLengthAndBadLengths) {
  for (const char* text : {"10.1.0.0/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129",
                           "10.0.0.0/8/8", "/8", "2001:db8::1/64"})
    EXPECT_FALSE(IpPrefix::parse(text)) << text;
  EXPECT_EQ(IpPrefix::parse("2001:db8::/32")->text(), "2001:db8::/32");
  EXPECT_EQ(IpPrefix::parse("192.0.2.1")->text(), "192.0.2.1/32");
}

}
}
