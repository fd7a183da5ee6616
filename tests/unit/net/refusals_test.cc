// What the kernel says that it refused, taken apart.
#include "mvm/net/refusals.h"

#include <netinet/in.h>

#include <gtest/gtest.h>

#include "guest_frames.h"

namespace mvm::net {
namespace {

TEST(ParseRefused, TakesNothingFromScraps) {
  const Packet whole = tcp(kGuest4, "8.8.4.4", 8443, kSyn);
  EXPECT_FALSE(parse_refused({}));
  EXPECT_FALSE(parse_refused(whole.payload));  // no IP header at all
  Bytes packet(20);
  packet[0] = std::byte{0x45};
  packet[9] = std::byte{IPPROTO_TCP};
  EXPECT_FALSE(parse_refused(packet));  // cut off before the port
  packet.resize(24);
  EXPECT_TRUE(parse_refused(packet));
  packet[0] = std::byte{0x44};  // a header shorter than a header
  EXPECT_FALSE(parse_refused(packet));
  packet[0] = std::byte{0x4f};  // longer than the packet
  EXPECT_FALSE(parse_refused(packet));
}

}
}
