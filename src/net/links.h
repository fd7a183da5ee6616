#pragma once
// Links, addresses, neighbours, routes and rules of the namespace the caller is in, by libnl.

#include <cstdint>

#include "mvm/net/guest_network.h"

namespace mvm::net {

inline constexpr const char* kTapName = "guest";
inline constexpr uint32_t kMark = 1;  // of packets that a transparent listener takes

// A TAP of that name that is up, with the gateway's addresses and the guest as a fixed neighbour.
sys::Fd make_tap();
void configure_links(const GuestAddresses& addresses, unsigned mtu);
// What carries kMark is delivered here, whatever its destination: the condition for TPROXY.
void route_marked_to_us();

}
