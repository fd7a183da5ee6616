#pragma once
// Which addresses the guest's connections may go to, in the kernel's tables: what DNS answered for
// names that rules admit, and the ranges that rules name. A gate for what cannot be right; each
// connection that passes it is judged again.

#include <cstdint>
#include <span>

#include "mvm/base/ip.h"
#include "mvm/sys/fd.h"

namespace mvm::net {

class Pins {
 public:
  // `socket` is GuestNetwork::pins.
  explicit Pins(sys::Fd socket);

  // Connections to this port of this address are taken. Adding one that is there already is fine;
  // removing one that is not throws.
  void add(const IpAddress& address, uint16_t port);
  void remove(const IpAddress& address, uint16_t port);
  // All ports of a range. Ranges may overlap.
  void add_range(const IpPrefix& range);
  // These ranges and no others, in one step.
  void set_ranges(std::span<const IpPrefix> ranges);

 private:
  sys::Fd socket_;
};

}
