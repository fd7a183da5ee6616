// The test is the guest: it writes Ethernet frames to the TAP and reads what comes back.
#include "mvm/net/guest_network.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"
#include "mvm/net/pins.h"
#include "mvm/net/refusals.h"

#include "guest_frames.h"
#include "name_space.h"

namespace mvm::net {
namespace {

class GuestNetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      network_ = make_guest_network({}, 1500);
    } catch (const Error& error) {
      if (error.kind() != Kind::Unsupported) throw;
      GTEST_SKIP() << error.message();
    }
  }
  Guest guest() const { return Guest(network_.tap.get()); }
  // The local address of the next accepted connection: where the guest wanted to go.
  std::string accepted() {
    pollfd entry{network_.tcp.get(), POLLIN, 0};
    if (::poll(&entry, 1, kPatience) <= 0) return "nobody";
    // Kept, as to close it would send the guest another segment.
    const sys::Fd& socket =
        connections_.emplace_back(::accept4(network_.tcp.get(), nullptr, nullptr, SOCK_CLOEXEC));
    sockaddr_in6 local{};
    socklen_t length = sizeof local;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0)
      return "no name";
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET6, &local.sin6_addr, text.data(), text.size());
    return std::string(text.data()) + " " + std::to_string(ntohs(local.sin6_port));
  }
  // Completes the handshake that `syn` began.
  void establish(const Packet& syn) const {
    guest().send(syn);
    const auto answer = guest().receive();
    ASSERT_TRUE(answer);
    ASSERT_EQ(tcp_flags(*answer), kSyn | kAck);
    EXPECT_EQ(answer->from, syn.to);
    Packet last = syn;
    Reader in(answer->payload);
    in.skip(4);
    const uint32_t theirs = in.u32be();
    set_u16be(last.payload, 4, 0);
    set_u16be(last.payload, 6, 1001);
    set_u16be(last.payload, 8, static_cast<uint16_t>((theirs + 1) >> 16));
    set_u16be(last.payload, 10, static_cast<uint16_t>(theirs + 1));
    last.payload[13] = std::byte{kAck};
    guest().send(sealed(last));
  }

  GuestNetwork network_;
  std::vector<sys::Fd> connections_;
};

TEST_F(GuestNetworkTest, TakesConnectionsToPinnedAddresses) {
  Pins pins(network_.pins.duplicate());
  pins.add(ip("8.8.8.8"), 443);
  pins.add(ip("2606:4700::1111"), 443);
  establish(tcp(kGuest4, "8.8.8.8", 443, kSyn));
  EXPECT_EQ(accepted(), "::ffff:8.8.8.8 443");
  establish(tcp(kGuest6, "2606:4700::1111", 443, kSyn));
  EXPECT_EQ(accepted(), "2606:4700::1111 443");
}

TEST_F(GuestNetworkTest, ResetsConnectionsToAnyOther) {
  Pins pins(network_.pins.duplicate());
  pins.add(ip("8.8.8.8"), 443);
  for (const Packet& syn :
       {tcp(kGuest4, "8.8.8.8", 80, kSyn), tcp(kGuest4, "8.8.4.4", 443, kSyn),
        tcp(kGuest4, "169.254.169.254", 80, kSyn), tcp(kGuest4, kGateway4, 1, kSyn),
        tcp(kGuest6, "2606:4700::1111", 443, kSyn), tcp(kGuest6, kGateway6, 22, kSyn)}) {
    guest().send(syn);
    // The kernel answers before the frame's write(2) returns: nobody waits for a process.
    pollfd entry{network_.tap.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 1) << syn.to.text();
    const auto answer = guest().receive();
    ASSERT_TRUE(answer) << syn.to.text();
    EXPECT_EQ(tcp_flags(*answer), kRst | kAck) << syn.to.text();
    EXPECT_EQ(answer->from, syn.to);
  }
}

TEST_F(GuestNetworkTest, ForgetsAnAddressThatIsReleased) {
  Pins pins(network_.pins.duplicate());
  pins.add(ip("8.8.8.8"), 443);
  pins.add(ip("8.8.8.8"), 443);  // again is fine
  pins.remove(ip("8.8.8.8"), 443);
  guest().send(tcp(kGuest4, "8.8.8.8", 443, kSyn));
  const auto answer = guest().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(tcp_flags(*answer), kRst | kAck);
}

TEST_F(GuestNetworkTest, TakesConnectionsIntoOpenRanges) {
  Pins pins(network_.pins.duplicate());
  pins.add_range(IpPrefix::parse("10.1.0.0/16").value());
  pins.add_range(IpPrefix::parse("fd00:1::/32").value());
  pins.add_range(IpPrefix::parse("ff00::/8").value());  // reaches to the end of all addresses
  establish(tcp(kGuest4, "10.1.255.255", 5432, kSyn));
  EXPECT_EQ(accepted(), "::ffff:10.1.255.255 5432");
  establish(tcp(kGuest6, "fd00:1:ffff::9", 5432, kSyn));
  EXPECT_EQ(accepted(), "fd00:1:ffff::9 5432");
  for (const Packet& syn :
       {tcp(kGuest4, "10.2.0.0", 5432, kSyn), tcp(kGuest6, "fd00:2::", 5432, kSyn),
        tcp(kGuest6, "fd00:0:ffff::", 5432, kSyn)}) {
    guest().send(syn);
    const auto answer = guest().receive();
    ASSERT_TRUE(answer) << syn.to.text();
    EXPECT_EQ(tcp_flags(*answer), kRst | kAck) << syn.to.text();
  }
}

TEST_F(GuestNetworkTest, ChangesItsRangesInOneStep) {
  Pins pins(network_.pins.duplicate());
  const auto range = [](std::string_view text) { return IpPrefix::parse(text).value(); };
  const auto answer_to = [&](const char* address) {
    guest().send(tcp(kGuest4, address, 5432, kSyn));
    const auto answer = guest().receive();
    return answer ? tcp_flags(*answer) : uint8_t{0};
  };
  // One within another, and one twice.
  pins.set_ranges(std::vector{range("10.1.0.0/16"), range("10.0.0.0/8"), range("10.0.0.0/8"),
                              range("fd00::/8")});
  EXPECT_EQ(answer_to("10.200.0.1"), kSyn | kAck);
  pins.set_ranges(std::vector{range("10.1.0.0/16")});
  EXPECT_EQ(answer_to("10.200.0.2"), kRst | kAck);
  EXPECT_EQ(answer_to("10.1.0.1"), kSyn | kAck);
  pins.set_ranges(std::vector{range("0.0.0.0/0"), range("::/0")});
  EXPECT_EQ(answer_to("11.0.0.1"), kSyn | kAck);
  pins.set_ranges({});
  EXPECT_EQ(answer_to("11.0.0.2"), kRst | kAck);
}

TEST_F(GuestNetworkTest, TakesDnsToAnyResolver) {
  for (const auto& [from, to] : {std::pair{kGuest4, "9.9.9.9"}, {kGuest6, "2620:fe::fe"}}) {
    guest().send(udp(from, to, 53, "a question"));
    pollfd entry{network_.dns_udp.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, kPatience), 1);
    std::array<char, 64> text{};
    iovec part{text.data(), text.size()};
    std::array<std::byte, 256> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ASSERT_EQ(::recvmsg(network_.dns_udp.get(), &message, 0), 10);
    EXPECT_STREQ(text.data(), "a question");
    std::string told;
    for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
      std::array<char, INET6_ADDRSTRLEN> address{};
      if (at->cmsg_level == SOL_IP && at->cmsg_type == IP_ORIGDSTADDR)
        told = ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(CMSG_DATA(at))->sin_addr,
                           address.data(), address.size());
      if (at->cmsg_level == SOL_IPV6 && at->cmsg_type == IPV6_ORIGDSTADDR)
        told =
            ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(CMSG_DATA(at))->sin6_addr,
                        address.data(), address.size());
    }
    EXPECT_EQ(told, to);
    establish(tcp(from, to, 53, kSyn));
    entry.fd = network_.dns_tcp.get();
    EXPECT_EQ(::poll(&entry, 1, kPatience), 1);
    connections_.emplace_back(::accept4(network_.dns_tcp.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
}

TEST_F(GuestNetworkTest, RefusesOtherDatagramsByIcmp) {
  guest().send(udp(kGuest4, "8.8.8.8", 443, "quic"));
  const auto answer = guest().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->protocol, IPPROTO_ICMP);
  EXPECT_EQ(answer->payload[0], std::byte{3});
  EXPECT_EQ(answer->payload[1], std::byte{13});  // administratively prohibited
  guest().send(udp(kGuest6, "2606:4700::1111", 443, "quic"));
  const auto answer6 = guest().receive();
  ASSERT_TRUE(answer6);
  EXPECT_EQ(answer6->protocol, IPPROTO_ICMPV6);
  EXPECT_EQ(answer6->payload[0], std::byte{1});
  EXPECT_EQ(answer6->payload[1], std::byte{1});
}

// A program may try many servers at once, and would wait for each that says nothing.
TEST_F(GuestNetworkTest, RefusesDatagramsByTheHundred) {
  constexpr int kMany = 300;
  for (int i = 0; i < kMany; ++i) {
    guest().send(udp(kGuest4, "8.8.8." + std::to_string(i % 256), 443, "quic"));
    guest().send(udp(kGuest6, "2606:4700::" + std::to_string(i), 443, "quic"));
  }
  int v4 = 0;
  int v6 = 0;
  while (v4 < kMany || v6 < kMany) {
    const auto answer = guest().receive();
    ASSERT_TRUE(answer) << v4 << " and " << v6;
    v4 += answer->protocol == IPPROTO_ICMP ? 1 : 0;
    v6 += answer->protocol == IPPROTO_ICMPV6 ? 1 : 0;
  }
}

TEST_F(GuestNetworkTest, AnswersPingsToTheGatewayAlone) {
  guest().send(ping(kGuest4, "8.8.8.8"));
  guest().send(ping(kGuest4, kGateway4));
  const auto answer = guest().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->from, ip(kGateway4));
  guest().send(ping(kGuest6, "2606:4700::1111"));
  guest().send(ping(kGuest6, kGateway6));
  const auto answer6 = guest().receive();
  ASSERT_TRUE(answer6);
  EXPECT_EQ(answer6->from, ip(kGateway6));
}

// Answers wait in the kernel's memory for a guest that takes none, and nobody is charged for them.
TEST_F(GuestNetworkTest, AnswersNoLongPings) {
  network_ = {};
  network_ = make_guest_network({}, kMaxMtu);
  const auto echo = [](const char* from, const char* to, size_t length) {
    Packet packet = ping(from, to);
    packet.payload.resize(length);
    return sealed(packet);
  };
  guest().send(echo(kGuest4, kGateway4, 65'000));
  guest().send(echo(kGuest6, kGateway6, 65'000));
  guest().send(echo(kGuest4, kGateway4, 1481));
  guest().send(echo(kGuest4, kGateway4, 1480));
  guest().send(echo(kGuest6, kGateway6, 1500));
  const auto answer = guest().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->payload.size(), 1480U);
  const auto answer6 = guest().receive();
  ASSERT_TRUE(answer6);
  EXPECT_EQ(answer6->payload.size(), 1500U);
}

TEST_F(GuestNetworkTest, DropsWhatClaimsToComeFromElsewhere) {
  guest().send(ping("100.127.255.3", kGateway4));
  guest().send(tcp("10.0.0.1", "8.8.8.8", 443, kSyn));
  guest().send(udp("127.0.0.1", kGateway4, 53, "spoofed"));
  guest().send(ping("fd6d:766d::3", kGateway6));
  guest().send(ping(kGuest4, kGateway4));
  const auto answer = guest().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->from, ip(kGateway4));  // to the last one
  EXPECT_EQ(answer->protocol, IPPROTO_ICMP);
  pollfd entry{network_.dns_udp.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
}

// All namespaces of a host share the room for neighbours (gc_thresh3: 1024 of each family), so one
// sandbox's may not be many.
TEST_F(GuestNetworkTest, KnowsNoNeighbourButTheGuest) {
  const sys::Fd name_space = name_space_of(network_.tap);
  if (::geteuid() != 0 || name_space.get() < 0) GTEST_SKIP() << "needs root to look into it";
  for (uint16_t i = 3; i < 2000; ++i) {
    const auto high = static_cast<uint8_t>(i >> 8);
    const auto low = static_cast<uint8_t>(i & 255);
    for (const uint16_t prefix : {uint16_t{0xfe80}, uint16_t{0xfd6d}, uint16_t{0x2606}}) {
      IpAddress::V6 from{static_cast<uint8_t>(prefix >> 8), static_cast<uint8_t>(prefix & 255)};
      if (prefix == 0xfd6d) from[2] = 0x76, from[3] = 0x6d;
      from[14] = high;
      from[15] = low;
      guest().send(solicitation(IpAddress(from), kGateway6));
    }
    for (const uint8_t net : {uint8_t{10}, uint8_t{100}}) {
      const Bytes frame = arp_request(
          IpAddress(IpAddress::V4{net, net == 100 ? uint8_t{127} : high, 255, low}), kGateway4);
      ASSERT_EQ(::write(network_.tap.get(), frame.data(), frame.size()),
                static_cast<ssize_t>(frame.size()));
    }
  }
  const std::string known = in_namespace(name_space.get(), "ip -4 neigh show; ip -6 neigh show");
  EXPECT_LE(std::ranges::count(known, '\n'), 4) << known.substr(0, 1000);
  EXPECT_NE(known.find(kGuest4), known.npos);
  EXPECT_NE(known.find(kGuest6), known.npos);
  // And the guest is answered as ever.
  guest().send(ping(kGuest4, kGateway4));
  guest().send(ping(kGuest6, kGateway6));
  bool v4 = false;
  bool v6 = false;
  while (!v4 || !v6) {
    const auto answer = guest().receive();
    ASSERT_TRUE(answer);
    v4 = v4 || (answer->protocol == IPPROTO_ICMP && answer->payload[0] == std::byte{0});
    v6 = v6 || (answer->protocol == IPPROTO_ICMPV6 && answer->payload[0] == std::byte{129});
  }
}

// Who says that it is a router is not believed, and who hands out addresses, or asks for one, is
// refused like anybody.
TEST_F(GuestNetworkTest, KnowsNoRouterAndNoDhcp) {
  const sys::Fd name_space = name_space_of(network_.tap);
  const auto state = [&] {
    return in_namespace(name_space.get(),
                        "ip -o addr; ip -4 route show table all; ip -6 route show table all");
  };
  const bool looks = ::geteuid() == 0 && name_space.get() >= 0;
  const std::string before = looks ? state() : "";
  ASSERT_EQ(before.empty(), !looks) << "ip(8) has not run";
  constexpr const char* kLinkLocal = "fe80::6d:76ff:fe6d:2";  // that of the guest's card
  using namespace std::string_literals;
  for (const char* to : {"ff02::1", kGateway6}) {
    // A router for half an hour, with a prefix, and a better way to somewhere (RFC 4861 §4.2, 4.5).
    guest().send(icmp(kLinkLocal, to, 134,
                      "\x40\0\x07\x08"s + std::string(8, '\0') + "\3\4\x40\xc0"s +
                          std::string(8, '\xff') + std::string(4, '\0') + "\x20\1\x0d\xb8"s +
                          std::string(12, '\0')));
    guest().send(
        icmp(kLinkLocal, to, 137, std::string(20, '\0') + "\x26\6\x47"s + std::string(13, '\1')));
    guest().send(icmp(kLinkLocal, to, 133, "\0\0\0\0"s));  // and who looks for one
  }
  guest().send(icmp(kGuest4, kGateway4, 5, "\x64\x7f\xff\2"s + std::string(28, '\0')));
  guest().send(icmp(kGuest4, kGateway4, 9, "\1\2\7\x08\x64\x7f\xff\2"s + std::string(4, '\0')));
  for (const char* from : {"0.0.0.0", kGuest4})
    for (const uint16_t port : {uint16_t{67}, uint16_t{68}})
      guest().send(udp(from, "255.255.255.255", port, std::string(240, 'd')));
  guest().send(udp(kLinkLocal, "ff02::1:2", 547, "solicit"));
  guest().send(ping(kGuest4, kGateway4));  // behind all of them
  while (true) {
    const auto answer = guest().receive();
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->protocol, IPPROTO_ICMP);
    if (answer->payload[0] == std::byte{0}) break;
    EXPECT_EQ(answer->payload[0], std::byte{3});  // prohibited, as any datagram of the guest's
    EXPECT_EQ(answer->payload[1], std::byte{13});
  }
  EXPECT_EQ(looks ? state() : "", before);
}

TEST_F(GuestNetworkTest, ReportsEachRefusalOnce) {
  Refusals refusals(network_.refused.duplicate());
  guest().send(tcp(kGuest4, "8.8.4.4", 8443, kSyn));
  guest().send(
      tcp(kGuest4, "8.8.4.4", 8443, kAck));  // of no connection: reset, and nothing to report
  guest().send(udp(kGuest6, "2606:4700::1111", 443, "quic"));
  std::vector<Refusal> all;
  pollfd entry{refusals.fd(), POLLIN, 0};
  while (all.size() < 2 && ::poll(&entry, 1, kPatience) == 1)
    for (const Refusal& refusal : refusals.take()) all.push_back(refusal);
  guest().send(ping(kGuest4, kGateway4));  // behind all of them
  while (const auto answer = guest().receive())
    if (answer->protocol == IPPROTO_ICMP) break;
  for (const Refusal& refusal : refusals.take()) all.push_back(refusal);
  const std::vector<Refusal> wanted{{Transport::Tcp, ip("8.8.4.4"), 8443},
                                    {Transport::Udp, ip("2606:4700::1111"), 443}};
  EXPECT_EQ(all, wanted);
  EXPECT_EQ(refusals.lost(), 0U);
}

TEST_F(GuestNetworkTest, CountsReportsThatTheKernelDropped) {
  Refusals refusals(network_.refused.duplicate());
  constexpr uint64_t kMany = 4000;
  uint64_t told = 0;
  uint64_t sent = 0;
  const auto read_all = [&] {
    pollfd entry{refusals.fd(), POLLIN, 0};
    while (::poll(&entry, 1, 100) == 1) told += refusals.take().size();
  };
  // Nobody reads meanwhile.
  for (; sent < kMany; ++sent) guest().send(udp(kGuest4, "8.8.4.4", 443, "quic"));
  read_all();
  EXPECT_GT(refusals.lost(), 0U);
  EXPECT_LT(refusals.lost(), kMany - told + 1);
  // The next one has its number.
  guest().send(udp(kGuest4, "8.8.4.4", 443, "quic"));
  ++sent;
  read_all();
  EXPECT_EQ(told + refusals.lost(), sent);
  guest().send(udp(kGuest4, "8.8.4.4", 443, "quic"));
  ++sent;
  read_all();
  EXPECT_EQ(told + refusals.lost(), sent);
}

}
}
