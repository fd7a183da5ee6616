#pragma once
// What a guest says on its link, written to the TAP as frames, and what comes back.

#include <array>
#include <optional>
#include <string_view>

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/bytes.h"
#include "mvm/net/guest_network.h"

namespace mvm::net {

inline constexpr size_t kVnetHeader = 12;
inline constexpr int kPatience =
    5000;  // milliseconds until something that must come counts as missing

inline IpAddress ip(std::string_view text) { return IpAddress::parse(text).value(); }

inline uint16_t checksum(ByteView data, uint32_t sum = 0) {
  Reader in(data);
  while (in.remaining() > 1) sum += in.u16be();
  if (in.remaining() == 1) sum += static_cast<uint32_t>(in.u8()) << 8;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// What a packet says, as far as these tests care.
struct Packet {
  IpAddress from;
  IpAddress to;
  uint8_t protocol = 0;
  Bytes payload;  // of IP
};

inline uint32_t pseudo_header(const Packet& packet) {
  Bytes bytes;
  Writer out(bytes);
  out.bytes(std::as_bytes(packet.from.bytes()));
  out.bytes(std::as_bytes(packet.to.bytes()));
  out.u32be(static_cast<uint32_t>(packet.payload.size()));
  out.u32be(packet.protocol);
  return static_cast<uint16_t>(~checksum(bytes));
}

inline void set_u16be(Bytes& bytes, size_t at, uint16_t value) {
  bytes[at] = static_cast<std::byte>(value >> 8);
  bytes[at + 1] = static_cast<std::byte>(value & 0xff);
}

// Puts the checksum where the protocol has it.
inline Packet sealed(Packet packet) {
  const size_t at = packet.protocol == IPPROTO_TCP ? 16 : packet.protocol == IPPROTO_UDP ? 6 : 2;
  set_u16be(packet.payload, at, 0);
  const bool bare = packet.protocol == IPPROTO_ICMP;
  set_u16be(packet.payload, at, checksum(packet.payload, bare ? 0 : pseudo_header(packet)));
  return packet;
}

class Guest {
 public:
  explicit Guest(int tap) : tap_(tap) {}

  void send(const Packet& packet) const {
    const GuestAddresses addresses;
    Bytes frame(kVnetHeader);
    Writer out(frame);
    out.bytes(std::as_bytes(std::span(addresses.gateway_mac)));
    out.bytes(std::as_bytes(std::span(addresses.guest_mac)));
    const bool v4 = packet.to.is_v4();
    out.u16be(v4 ? 0x0800 : 0x86dd);
    const size_t begin = frame.size();
    if (v4) {
      out.u16be(0x4500);
      out.u16be(static_cast<uint16_t>(20 + packet.payload.size()));
      out.u32be(0x00004000);  // no fragments
      out.u8(64);
      out.u8(packet.protocol);
      out.u16be(0);
    } else {
      out.u32be(0x60000000);
      out.u16be(static_cast<uint16_t>(packet.payload.size()));
      out.u8(packet.protocol);
      out.u8(255);  // as neighbour discovery wants it
    }
    out.bytes(std::as_bytes(packet.from.bytes()));
    out.bytes(std::as_bytes(packet.to.bytes()));
    if (v4) set_u16be(frame, begin + 10, checksum(ByteView(frame).subspan(begin, 20)));
    out.bytes(packet.payload);
    ASSERT_EQ(::write(tap_, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }

  // The next packet to one of the guest's addresses, other than neighbour discovery.
  std::optional<Packet> receive() const {
    const GuestAddresses addresses;
    while (true) {
      pollfd entry{tap_, POLLIN, 0};
      if (::poll(&entry, 1, kPatience) <= 0) return std::nullopt;
      Bytes frame(kMaxMtu + 100);
      const ssize_t got = ::read(tap_, frame.data(), frame.size());
      if (got <= 0) return std::nullopt;
      frame.resize(static_cast<size_t>(got));
      Reader in(ByteView(frame).subspan(kVnetHeader + 12));
      const uint16_t type = in.u16be();
      Packet packet;
      if (type == 0x0800) {
        in.skip(9);
        packet.protocol = in.u8();
        in.skip(2);
        packet.from = IpAddress(in.read<IpAddress::V4>());
        packet.to = IpAddress(in.read<IpAddress::V4>());
      } else if (type == 0x86dd) {
        in.skip(6);
        packet.protocol = in.u8();
        in.skip(1);
        packet.from = IpAddress(in.read<IpAddress::V6>());
        packet.to = IpAddress(in.read<IpAddress::V6>());
      }
      if (packet.to != addresses.guest4 && packet.to != addresses.guest6) continue;
      packet.payload.assign(in.rest().begin(), in.rest().end());
      return packet;
    }
  }

 private:
  int tap_;
};

inline Packet udp(std::string_view from, std::string_view to, uint16_t port,
                  std::string_view text) {
  Packet packet{ip(from), ip(to), IPPROTO_UDP, {}};
  Writer out(packet.payload);
  out.u16be(40000);
  out.u16be(port);
  out.u16be(static_cast<uint16_t>(8 + text.size()));
  out.u16be(0);
  out.text(text);
  return sealed(packet);
}

inline constexpr uint8_t kSyn = 2;
inline constexpr uint8_t kRst = 4;
inline constexpr uint8_t kAck = 16;

inline Packet tcp(std::string_view from, std::string_view to, uint16_t port, uint8_t flags) {
  Packet packet{ip(from), ip(to), IPPROTO_TCP, {}};
  Writer out(packet.payload);
  out.u16be(40000);
  out.u16be(port);
  out.u32be(1000);
  out.u32be(0);
  out.u8(5 << 4);
  out.u8(flags);
  out.u16be(65535);
  out.u32be(0);
  return sealed(packet);
}

inline Packet ping(std::string_view from, std::string_view to) {
  Packet packet{ip(from), ip(to), IPPROTO_ICMP, {}};
  Writer out(packet.payload);
  const bool v4 = packet.to.is_v4();
  if (!v4) packet.protocol = IPPROTO_ICMPV6;
  out.u8(v4 ? 8 : 128);
  out.zeros(7);
  return sealed(packet);
}

inline Packet solicitation(const IpAddress& from, std::string_view target) {
  const GuestAddresses addresses;
  Packet packet{from, ip(target), IPPROTO_ICMPV6, {}};
  Writer out(packet.payload);
  out.u8(135);
  out.zeros(7);
  out.bytes(std::as_bytes(packet.to.bytes()));
  out.u16be(0x0101);  // the sender's link-layer address
  out.bytes(std::as_bytes(std::span(addresses.guest_mac)));
  return sealed(packet);
}

inline Bytes arp_request(const IpAddress& from, std::string_view target) {
  const GuestAddresses addresses;
  Bytes frame(kVnetHeader);
  Writer out(frame);
  out.zeros(6);
  for (size_t i = kVnetHeader; i < frame.size(); ++i) frame[i] = std::byte{0xff};
  out.bytes(std::as_bytes(std::span(addresses.guest_mac)));
  out.u16be(0x0806);
  out.u32be(1 << 16 | 0x0800);
  out.u32be(0x0604 << 16 | 1);
  out.bytes(std::as_bytes(std::span(addresses.guest_mac)));
  out.bytes(std::as_bytes(from.bytes()));
  out.zeros(6);
  out.bytes(std::as_bytes(ip(target).bytes()));
  return frame;
}

inline uint8_t tcp_flags(const Packet& packet) {
  return packet.protocol == IPPROTO_TCP && packet.payload.size() > 13
             ? std::to_integer<uint8_t>(packet.payload[13])
             : uint8_t{0};
}

inline Packet icmp(std::string_view from, std::string_view to, uint8_t type,
                   std::string_view rest) {
  Packet packet{ip(from), ip(to), IPPROTO_ICMP, {}};
  if (!packet.to.is_v4()) packet.protocol = IPPROTO_ICMPV6;
  Writer out(packet.payload);
  out.u8(type);
  out.zeros(3);
  out.text(rest);
  return sealed(packet);
}

inline constexpr const char* kGuest4 = "100.127.255.2";
inline constexpr const char* kGateway4 = "100.127.255.1";
inline constexpr const char* kGuest6 = "fd6d:766d::2";
inline constexpr const char* kGateway6 = "fd6d:766d::1";

}
