#pragma once
// What a guest may put on its link: frames from its own addresses, whole, plain, and described by
// an offload header that is true. Everything else ends here, before the host's network code sees
// it.
//
// Who may be talked to is decided behind it. No VLANs, no fragments, no IP options or extension
// headers, no sources but the guest's; and of frames that begin something only so many a second.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "mvm/base/bytes.h"
#include "mvm/base/ip.h"
#include "mvm/virtio/spec.h"

namespace mvm::virtio {

// struct virtio_net_hdr with VIRTIO_F_VERSION_1 (virtio 1.2 §5.1.6); what Linux calls
// virtio_net_hdr_v1, and reads and writes in front of a TAP's frames.
struct NetHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t header_length = 0;
  uint16_t gso_size = 0;
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
  uint16_t buffers = 0;
};
static_assert(sizeof(NetHeader) == 12 && std::is_trivially_copyable_v<NetHeader>);
inline constexpr uint8_t kNeedsChecksum = 1;
inline constexpr uint8_t kGsoNone = 0;
inline constexpr uint8_t kGsoTcp4 = 1;
inline constexpr uint8_t kGsoTcp6 = 4;
inline constexpr uint8_t kGsoEcn = 0x80;

struct FrameOwner {
  std::array<uint8_t, 6> mac{};
  IpAddress v4;
  IpAddress v6 = IpAddress(IpAddress::V6{});
};

enum class FrameFault : uint8_t {
  Size,        // shorter than an Ethernet header, or longer than any frame
  ForeignMac,  // not from the guest's card
  Protocol,    // neither ARP nor IP: VLAN tags, 802.3 lengths, anything else
  Arp,         // malformed, or speaks for somebody else
  Ip,          // header or length do not fit the frame; options or extension headers
  Fragment,
  ForeignAddress,
  Transport,  // header of TCP, UDP or ICMP cut off or impossible
  Offload,    // the header in front asks for what the frame is not, or was not negotiated
  Rate,       // one that begins something, and too many of them did
};
inline constexpr size_t kFrameFaults = 10;
std::string_view frame_fault_name(FrameFault fault) noexcept;

// Enough of a frame to judge it: Ethernet, IPv6 and the longest TCP header.
inline constexpr size_t kGateBytes = 14 + 40 + 60;
inline constexpr uint64_t kMaxFrame = 14 + 65535;

// `start` is a copy of the frame's first min(length, kGateBytes) bytes. When it passes, `header` is
// rewritten to what is true of the frame, so nothing of the guest's wording goes on.
std::optional<FrameFault> judge_frame(const FrameOwner& owner, Features negotiated,
                                      NetHeader& header, ByteView start, uint64_t length) noexcept;

// Whether a frame that passes begins something: a connection, a question, a datagram. Others are
// segments of connections, which the host's own windows hold back. Each of these is work that its
// bytes do not pay for: an answer, a record of the refusal, the proxy's attention.
bool begins(ByteView start) noexcept;

}
