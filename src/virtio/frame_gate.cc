#include "mvm/virtio/frame_gate.h"

#include <algorithm>

namespace mvm::virtio {
namespace {

constexpr size_t kEthernet = 14;
constexpr uint16_t kTypeIp4 = 0x0800;
constexpr uint16_t kTypeArp = 0x0806;
constexpr uint16_t kTypeIp6 = 0x86dd;
constexpr uint8_t kIcmp = 1;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmp6 = 58;

// virtio 1.2 §5.1.3
constexpr unsigned kFeatureChecksum = 0;
constexpr unsigned kFeatureTso4 = 11;
constexpr unsigned kFeatureTso6 = 12;
constexpr unsigned kFeatureEcn = 13;

// What is above IP, and where.
struct Transport {
  uint8_t protocol = 0;
  size_t at = 0;      // in the frame
  size_t length = 0;  // bytes of it that IP announces
  bool v4 = false;
};

IpAddress read_v4(Reader& in) noexcept { return IpAddress(in.read<IpAddress::V4>()); }
IpAddress read_v6(Reader& in) noexcept { return IpAddress(in.read<IpAddress::V6>()); }

std::optional<FrameFault> judge_arp(const FrameOwner& owner, ByteView packet) noexcept {
  Reader in(packet);
  const bool ethernet_for_ip =
      in.u16be() == 1 && in.u16be() == kTypeIp4 && in.u8() == 6 && in.u8() == 4;
  const uint16_t operation = in.u16be();
  const auto sender_mac = in.read<std::array<uint8_t, 6>>();
  const IpAddress sender = read_v4(in);
  in.skip(10);
  if (!in || !ethernet_for_ip || operation < 1 || operation > 2) return FrameFault::Arp;
  // 0.0.0.0 asks whether an address is free (RFC 5227).
  if (sender_mac != owner.mac || (sender != owner.v4 && sender != IpAddress()))
    return FrameFault::Arp;
  return std::nullopt;
}

std::optional<FrameFault> judge_ip4(const FrameOwner& owner, ByteView packet, uint64_t length,
                                    Transport& transport) noexcept {
  Reader in(packet);
  const uint8_t version_and_length = in.u8();
  in.skip(1);
  const uint16_t total = in.u16be();
  in.skip(2);
  const uint16_t fragment = in.u16be();
  in.skip(1);
  transport.protocol = in.u8();
  in.skip(2);
  const IpAddress source = read_v4(in);
  in.skip(4);
  // Frames may be padded to the link's minimum.
  if (!in || version_and_length != 0x45 || total < 20 || total > length) return FrameFault::Ip;
  if ((fragment & 0xbfff) != 0) return FrameFault::Fragment;  // all but "do not"
  if (source != owner.v4) return FrameFault::ForeignAddress;
  transport.at = kEthernet + 20;
  transport.length = total - 20U;
  transport.v4 = true;
  return std::nullopt;
}

// What a host says before it has an address, and to its neighbours: from the unspecified address or
// the link-local one that its card's address makes (RFC 4291, appendix A), in ICMPv6. No other:
// each that asks for a neighbour becomes one, in a table of the host's that all of it shares.
bool is_link_talk(const FrameOwner& owner, const IpAddress& source, uint8_t protocol) noexcept {
  const auto& mac = owner.mac;
  const IpAddress::V6 link_local{
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  return protocol == kIcmp6 &&
         (source == IpAddress(IpAddress::V6{}) || source == IpAddress(link_local));
}

std::optional<FrameFault> judge_ip6(const FrameOwner& owner, ByteView packet, uint64_t length,
                                    Transport& transport) noexcept {
  constexpr uint8_t kFragmentHeader = 44;
  Reader in(packet);
  const uint8_t version = in.u8() >> 4;
  in.skip(3);
  const uint16_t payload = in.u16be();
  transport.protocol = in.u8();
  in.skip(1);
  const IpAddress source = read_v6(in);
  in.skip(16);
  if (!in || version != 6 || payload + uint64_t{40} > length) return FrameFault::Ip;
  if (transport.protocol == kFragmentHeader) return FrameFault::Fragment;
  if (source != owner.v6 && !is_link_talk(owner, source, transport.protocol))
    return FrameFault::ForeignAddress;
  transport.at = kEthernet + 40;
  transport.length = payload;
  transport.v4 = false;
  return std::nullopt;
}

// The header's length; nothing when it is cut off or impossible.
std::optional<size_t> transport_header(const Transport& transport, ByteView start) noexcept {
  const ByteView header = start.subspan(std::min(transport.at, start.size()));
  const auto needs = [&](size_t bytes) -> std::optional<size_t> {
    if (header.size() < bytes || transport.length < bytes) return std::nullopt;
    return bytes;
  };
  switch (transport.protocol) {
    case kTcp: {
      if (!needs(20)) return std::nullopt;
      const size_t length = (std::to_integer<size_t>(header[12]) >> 4) * 4;
      if (length < 20) return std::nullopt;
      return needs(length);
    }
    case kUdp: {
      if (!needs(8)) return std::nullopt;
      const size_t length =
          std::to_integer<size_t>(header[4]) << 8 | std::to_integer<size_t>(header[5]);
      if (length < 8 || length > transport.length) return std::nullopt;
      return 8;
    }
    case kIcmp:
      return transport.v4 ? needs(8) : std::nullopt;
    case kIcmp6:
      return transport.v4 ? std::nullopt : needs(4);
    default:
      // No extension headers, and nobody here to speak anything else.
      return std::nullopt;
  }
}

std::optional<FrameFault> rewrite_offload(const Transport& transport, size_t header_length,
                                          Features negotiated, NetHeader& header) noexcept {
  NetHeader truth;
  if ((header.flags & ~kNeedsChecksum) != 0) return FrameFault::Offload;
  if ((header.flags & kNeedsChecksum) != 0) {
    const bool has_checksum = transport.protocol == kTcp || transport.protocol == kUdp;
    const uint16_t offset = transport.protocol == kTcp ? 16 : 6;
    if (!negotiated.has(kFeatureChecksum) || !has_checksum ||
        header.checksum_start != transport.at || header.checksum_offset != offset)
      return FrameFault::Offload;
    truth.flags = kNeedsChecksum;
    truth.checksum_start = static_cast<uint16_t>(transport.at);
    truth.checksum_offset = offset;
  }
  if (header.gso_type != kGsoNone) {
    const uint8_t kind = header.gso_type & static_cast<uint8_t>(~kGsoEcn);
    const bool ecn = (header.gso_type & kGsoEcn) != 0;
    const bool fits = transport.v4 ? kind == kGsoTcp4 && negotiated.has(kFeatureTso4)
                                   : kind == kGsoTcp6 && negotiated.has(kFeatureTso6);
    // §5.1.6.2: segments need their checksums made.
    if (!fits || transport.protocol != kTcp || truth.flags == 0 || header.gso_size == 0 ||
        (ecn && !negotiated.has(kFeatureEcn)))
      return FrameFault::Offload;
    truth.gso_type = header.gso_type;
    truth.gso_size = header.gso_size;
    truth.header_length = static_cast<uint16_t>(transport.at + header_length);
  }
  header = truth;
  return std::nullopt;
}

}

std::string_view frame_fault_name(FrameFault fault) noexcept {
  switch (fault) {
    case FrameFault::Size:
      return "size";
    case FrameFault::ForeignMac:
      return "foreign_mac";
    case FrameFault::Protocol:
      return "protocol";
    case FrameFault::Arp:
      return "arp";
    case FrameFault::Ip:
      return "ip";
    case FrameFault::Fragment:
      return "fragment";
    case FrameFault::ForeignAddress:
      return "foreign_address";
    case FrameFault::Transport:
      return "transport";
    case FrameFault::Offload:
      return "offload";
    case FrameFault::Rate:
      return "rate";
  }
  return "unknown";
}

std::optional<FrameFault> judge_frame(const FrameOwner& owner, Features negotiated,
                                      NetHeader& header, ByteView start, uint64_t length) noexcept {
  if (length < kEthernet || length > kMaxFrame ||
      start.size() < std::min<uint64_t>(length, kGateBytes))
    return FrameFault::Size;
  Reader in(start);
  in.skip(6);
  if (in.read<std::array<uint8_t, 6>>() != owner.mac) return FrameFault::ForeignMac;
  const uint16_t type = in.u16be();
  const ByteView packet = in.rest();
  const uint64_t packet_length = length - kEthernet;
  Transport transport;
  std::optional<FrameFault> fault;
  switch (type) {
    case kTypeArp:
      fault = judge_arp(owner, packet);
      if (fault) return fault;
      if (header.flags != 0 || header.gso_type != kGsoNone) return FrameFault::Offload;
      header = {};
      return std::nullopt;
    case kTypeIp4:
      fault = judge_ip4(owner, packet, packet_length, transport);
      break;
    case kTypeIp6:
      fault = judge_ip6(owner, packet, packet_length, transport);
      break;
    default:
      return FrameFault::Protocol;
  }
  if (fault) return fault;
  const auto header_length = transport_header(transport, start);
  if (!header_length) return FrameFault::Transport;
  return rewrite_offload(transport, *header_length, negotiated, header);
}

bool begins(ByteView start) noexcept {
  Reader in(start);
  in.skip(12);
  const bool v4 = in.u16be() == kTypeIp4;  // of ARP what follows is zero there, which is no TCP
  in.skip(v4 ? 9 : 6);
  if (in.u8() != kTcp) return true;
  in.skip(v4 ? 10 : 33);
  in.skip(13);
  constexpr uint8_t kSyn = 2;
  return !in || (in.u8() & kSyn) != 0;
}

}
