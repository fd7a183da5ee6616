// The gate before the host's network code: what passes, and every way not to.

#include "mvm/virtio/frame_gate.h"

#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "support/frames.h"

namespace mvm::virtio {
namespace {

using test::Frame;
using test::kOwner;

const Features kAll = Features().with(0).with(11).with(12).with(13);

std::string_view judged(const Frame& frame, NetHeader header = {}, Features negotiated = kAll) {
  const ByteView bytes(frame.bytes);
  const auto fault = judge_frame(kOwner, negotiated, header,
                                 bytes.first(std::min(bytes.size(), kGateBytes)), bytes.size());
  return fault ? frame_fault_name(*fault) : "passes";
}

TEST(FrameGate, LetsTheGuestsOwnFramesPass) {
  EXPECT_EQ(judged(Frame::tcp4()), "passes");
  EXPECT_EQ(judged(Frame::tcp6()), "passes");
  EXPECT_EQ(judged(Frame::udp4("hello")), "passes");
  EXPECT_EQ(judged(Frame::arp()), "passes");
  EXPECT_EQ(judged(Frame::tcp4().resized(60)), "passes");  // padded, as Ethernet wants it
  EXPECT_EQ(judged(Frame::neighbour_solicitation("::")), "passes");
  EXPECT_EQ(judged(Frame::neighbour_solicitation("fe80::ff:fe00:2")), "passes");
  EXPECT_EQ(judged(Frame::neighbour_solicitation("fd00::2")), "passes");
}

TEST(FrameGate, RefusesFramesThatAreNone) {
  EXPECT_EQ(judged(Frame{}), "size");
  EXPECT_EQ(judged(Frame::tcp4().resized(13)), "size");
  EXPECT_EQ(judged(Frame::tcp4().resized(kMaxFrame + 1)), "size");
  EXPECT_EQ(judged(Frame::tcp4().resized(14)), "ip");
  EXPECT_EQ(judged(Frame::tcp6().resized(14 + 39)), "ip");
  EXPECT_EQ(judged(Frame::arp().resized(14 + 27)), "arp");
}

TEST(FrameGate, RefusesWhatSpeaksForOthers) {
  EXPECT_EQ(judged(Frame::tcp4().with(6, 0x04)), "foreign_mac");
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 15, 9)), "foreign_address");
  EXPECT_EQ(judged(Frame::tcp6().with(14 + 23, 9)), "foreign_address");
  EXPECT_EQ(judged(Frame::arp().with(14 + 8, 9)), "arp");   // the sender's card
  EXPECT_EQ(judged(Frame::arp().with(14 + 17, 9)), "arp");  // and its address
  // Nobody here has addresses to give (DHCP).
  Frame discover = Frame::udp4(std::string(240, 'd'));
  for (const size_t at : {26, 27, 28, 29}) discover.with(at, 0).with(at + 4, 255);
  EXPECT_EQ(judged(discover), "foreign_address");
  // Neighbour discovery comes from one link-local address, and nothing else does.
  for (const char* other : {"fe80::1", "fe80::ff:fe00:3", "fd00::3", "ff02::1"})
    EXPECT_EQ(judged(Frame::neighbour_solicitation(other)), "foreign_address") << other;
  Frame frame = Frame::tcp6();
  frame.with(14 + 8, 0xfe).with(14 + 9, 0x80).with(14 + 8 + 11, 0xff).with(14 + 8 + 12, 0xfe);
  EXPECT_EQ(judged(frame), "foreign_address");
}

TEST(FrameGate, RefusesWhatIsNeitherArpNorPlainIp) {
  EXPECT_EQ(judged(Frame::tcp4().with(12, 0x81).with(13, 0)), "protocol");     // a VLAN's tag
  EXPECT_EQ(judged(Frame::tcp4().with(12, 0x88).with(13, 0xa8)), "protocol");  // two of them
  EXPECT_EQ(judged(Frame::tcp4().with(12, 0x88).with(13, 0xcc)), "protocol");  // LLDP
  EXPECT_EQ(judged(Frame::tcp4().with(12, 0).with(13, 40)), "protocol");       // 802.3
  EXPECT_EQ(judged(Frame::tcp4().with(14, 0x46)), "ip");                       // options
  EXPECT_EQ(judged(Frame::tcp4().with(14, 0x44)), "ip");
  EXPECT_EQ(judged(Frame::tcp4().with(14, 0x65)), "ip");
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 2, 1)), "ip");   // longer than the frame
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 3, 19)), "ip");  // shorter than its header
  EXPECT_EQ(judged(Frame::tcp6().with(14, 0x45)), "ip");
  EXPECT_EQ(judged(Frame::tcp6().with(14 + 4, 1)), "ip");
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 6, 0x20)), "fragment");  // more to come
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 7, 1)), "fragment");     // an offset
  EXPECT_EQ(judged(Frame::tcp6().with(14 + 6, 44)), "fragment");
  for (const int extension : {0, 43, 50, 51, 60})
    EXPECT_EQ(judged(Frame::tcp6().with(14 + 6, static_cast<uint8_t>(extension))), "transport")
        << extension;
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 9, 47)), "transport");  // GRE
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 9, 58)), "transport");  // ICMPv6 in IPv4
}

TEST(FrameGate, RefusesTransportHeadersThatDoNotFit) {
  const size_t tcp = 14 + 20;
  EXPECT_EQ(judged(Frame::tcp4().with(tcp + 12, 0x40)), "transport");  // 16 bytes
  EXPECT_EQ(judged(Frame::tcp4().with(tcp + 12, 0xf0)), "transport");  // 60, beyond the packet
  EXPECT_EQ(judged(Frame::tcp4().with(14 + 3, 39)), "transport");      // IP says 19 bytes
  EXPECT_EQ(judged(Frame::udp4("x").with(tcp + 5, 7)), "transport");
  EXPECT_EQ(judged(Frame::udp4("x").with(tcp + 5, 10)), "transport");
}

// Frames with a few bytes changed, read by other code than the gate's.
TEST(FrameGate, WhateverPassesIsTheGuestsOwn) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same ones each time
  const std::array kinds{Frame::tcp4("data"), Frame::tcp6("data"), Frame::udp4("data"),
                         Frame::arp(), Frame::neighbour_solicitation("fd00::2")};
  const auto number = [](const Frame& frame, size_t at) {
    return std::to_integer<unsigned>(frame.bytes.at(at)) << 8 |
           std::to_integer<unsigned>(frame.bytes.at(at + 1));
  };
  const auto has = [](const Frame& frame, size_t at, ByteView wanted) {
    return std::ranges::equal(ByteView(frame.bytes).subspan(at, wanted.size()), wanted);
  };
  size_t passed = 0;
  for (int i = 0; i < 100'000; ++i) {
    Frame frame = kinds.at(random() % kinds.size());
    if (random() % 4 == 0) frame.resized(14 + random() % (frame.bytes.size() - 13));
    for (unsigned changes = random() % 4; changes > 0; --changes)
      frame.with(random() % frame.bytes.size(), static_cast<uint8_t>(random()));
    if (judged(frame) != "passes") continue;
    ++passed;
    ASSERT_TRUE(has(frame, 6, std::as_bytes(std::span(kOwner.mac))));
    const unsigned type = number(frame, 12);
    if (type == 0x0806) {
      ASSERT_TRUE(has(frame, 22, std::as_bytes(std::span(kOwner.mac))));
      ASSERT_TRUE(has(frame, 28, std::as_bytes(kOwner.v4.bytes())));
    } else if (type == 0x0800) {
      ASSERT_EQ(number(frame, 14) >> 8, 0x45U);
      ASSERT_GE(frame.bytes.size(), 14 + number(frame, 16));
      ASSERT_EQ(number(frame, 20) & 0xbfff, 0U);  // no fragment
      ASSERT_TRUE(has(frame, 26, std::as_bytes(kOwner.v4.bytes())));
    } else {
      ASSERT_EQ(type, 0x86ddU);
      ASSERT_GE(frame.bytes.size(), 54 + number(frame, 18));
      ASSERT_TRUE(has(frame, 22, std::as_bytes(kOwner.v6.bytes())));
    }
  }
  EXPECT_GT(passed, 20'000U);
  EXPECT_LT(passed, 80'000U);
}

NetHeader checksum4() {
  return {.flags = kNeedsChecksum, .checksum_start = 34, .checksum_offset = 16};
}

TEST(FrameGate, RefusesOffloadsThatAreNotTrue) {
  EXPECT_EQ(judged(Frame::tcp4(), checksum4()), "passes");
  EXPECT_EQ(judged(Frame::tcp4(), checksum4(), Features()), "offload");  // not negotiated
  for (const int start : {0, 14, 33, 35, 65535}) {
    NetHeader header = checksum4();
    header.checksum_start = static_cast<uint16_t>(start);
    EXPECT_EQ(judged(Frame::tcp4(), header), "offload") << start;
  }
  NetHeader header = checksum4();
  header.checksum_offset = 6;  // UDP's
  EXPECT_EQ(judged(Frame::tcp4(), header), "offload");
  EXPECT_EQ(judged(Frame::udp4("x"), header), "passes");
  EXPECT_EQ(judged(Frame::arp(), checksum4()), "offload");
  header = {};
  header.flags = 2;
  EXPECT_EQ(judged(Frame::tcp4(), header), "offload");
}

TEST(FrameGate, RefusesSegmentationThatTheFrameIsNot) {
  NetHeader header = checksum4();
  header.gso_type = kGsoTcp4;
  header.gso_size = 1448;
  const Frame big = Frame::tcp4(std::string(5000, 'x'));
  EXPECT_EQ(judged(big, header), "passes");
  EXPECT_EQ(judged(big, header, Features().with(0)), "offload");
  NetHeader wrong = header;
  wrong.gso_type = kGsoTcp6;
  EXPECT_EQ(judged(big, wrong), "offload");
  wrong.gso_type = 3;  // UDP fragmentation
  EXPECT_EQ(judged(big, wrong), "offload");
  wrong = header;
  wrong.gso_size = 0;
  EXPECT_EQ(judged(big, wrong), "offload");
  wrong = header;
  wrong.flags = 0;
  EXPECT_EQ(judged(big, wrong), "offload");
  wrong = header;
  wrong.gso_type |= kGsoEcn;
  EXPECT_EQ(judged(big, wrong), "passes");
  EXPECT_EQ(judged(big, wrong, Features().with(0).with(11)), "offload");
}

TEST(FrameGate, SaysItInItsOwnWords) {
  NetHeader header = checksum4();
  header.gso_type = kGsoTcp4;
  header.gso_size = 1448;
  header.header_length = 7;
  header.buffers = 99;
  const Frame big = Frame::tcp4(std::string(5000, 'x'));
  ASSERT_FALSE(
      judge_frame(kOwner, kAll, header, ByteView(big.bytes).first(kGateBytes), big.bytes.size()));
  EXPECT_EQ(header.header_length, 14 + 20 + 20);
  EXPECT_EQ(header.buffers, 0);
  EXPECT_EQ(header.checksum_start, 34);
}

}
}
