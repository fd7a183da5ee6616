#pragma once
// Links, addresses, neighbours, routes and rules of the namespace the caller is in, by libnl.

#include <cstdint>

#include "mvm/net/guest_network.h"

#include "netlink.h"

namespace mvm::net {

inline constexpr const char* kTapName = "guest";
inline constexpr uint32_t kMark = 1;  // of packets that a transparent listener takes

// A TAP of that name that is up, with the gateway's addresses and the guest as a fixed neighbour.
sys::Fd make_tap();
void configure_links(const GuestAddresses& addresses, unsigned mtu);

// Says when an IPv6 address of the caller's namespace takes packets. The kernel's answer to adding
// one does not mean that: its route, and the group that neighbours ask in, are made by a worker
// later, and until then what the guest sends to the gateway is nobody's. To be made before the
// address is added.
class AddressWatch {
 public:
  explicit AddressWatch(const IpAddress& address);
  AddressWatch(const AddressWatch&) = delete;
  AddressWatch& operator=(const AddressWatch&) = delete;
  // Throws Error{Internal} when that does not happen.
  void wait();

 private:
  static int note(nl_msg* message, void* watch);

  IpAddress address_;
  NlSocket socket_;
  bool ready_ = false;
};

// What carries kMark is delivered here, whatever its destination: the condition for TPROXY.
void route_marked_to_us();

}
