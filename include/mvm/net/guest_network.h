#pragma once
// A guest's network: a TAP in a network namespace of its own, where the kernel's TCP ends the
// guest's connections at listeners of ours. No route leads out of it; whatever leaves, leaves
// through a socket that the proxy opens elsewhere.
//
//   guest ─ virtio-net ─ TAP ─ [ namespace: nftables → transparent listeners ] ─ descriptors ─
//   proxy
//
// The namespace needs no process: it lives as long as these descriptors, and goes with them.

#include <array>
#include <cstdint>

#include "mvm/base/ip.h"
#include "mvm/sys/fd.h"

namespace mvm::net {

using MacAddress = std::array<uint8_t, 6>;

// The same in every sandbox, as no two share a link: so a snapshot can be resumed anywhere. From
// the shared address space (RFC 6598) and unique local addresses (RFC 4193), where they are least
// likely to hide a host that somebody wants to reach.
struct GuestAddresses {
  IpAddress guest4 = IpAddress(IpAddress::V4{100, 127, 255, 2});
  IpAddress gateway4 = IpAddress(IpAddress::V4{100, 127, 255, 1});
  unsigned length4 = 30;
  IpAddress guest6 =
      IpAddress(IpAddress::V6{0xfd, 0x6d, 0x76, 0x6d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  IpAddress gateway6 =
      IpAddress(IpAddress::V6{0xfd, 0x6d, 0x76, 0x6d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  unsigned length6 = 64;
  MacAddress guest_mac = {0x02, 0x6d, 0x76, 0x6d, 0x00, 0x02};
  MacAddress gateway_mac = {0x02, 0x6d, 0x76, 0x6d, 0x00, 0x01};
};

inline constexpr unsigned kMinMtu = 1280;  // RFC 8200 §5
inline constexpr unsigned kMaxMtu = 65520;

struct GuestNetwork {
  // Frames, each behind a virtio_net_hdr_v1 of 12 bytes (IFF_VNET_HDR, virtio 1.2 §5.1.6).
  sys::Fd tap;
  // Listening, for both families (IPv4 as mapped addresses). What an accepted socket calls its own
  // address is where the guest wanted to go.
  sys::Fd tcp;
  // DNS, whatever resolver the guest asked: a listener, and a datagram socket that tells where each
  // datagram was sent (IPV6_RECVORIGDSTADDR) and may answer from there.
  sys::Fd dns_tcp;
  sys::Fd dns_udp;
  // Netlink sockets in the namespace: to pin addresses (Pins), and what was refused (nflog, group
  // kRefusedGroup).
  sys::Fd pins;
  sys::Fd refused;
};

inline constexpr uint16_t kRefusedGroup = 1;

// Makes one, by a child process that is gone when this returns. The caller must have one thread.
// Throws Error{Unsupported} that says what the host lacks and what to do.
GuestNetwork make_guest_network(const GuestAddresses& addresses, unsigned mtu);

}
