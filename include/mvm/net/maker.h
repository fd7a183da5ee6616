#pragma once
// A guest's network, made beside other work.

#include <sys/types.h>

#include "mvm/net/guest_network.h"
#include "mvm/sys/fd.h"

namespace mvm::net {

// Makes one, in a child process, while the caller does something else: it takes the kernel some
// twenty milliseconds. The child has the mounts of the moment it was started, whatever the caller
// does to its own.
class GuestNetworkMaker {
 public:
  // Starts. The caller must have one thread. Throws Error{Unsupported}.
  GuestNetworkMaker(const GuestAddresses& addresses, unsigned mtu);
  ~GuestNetworkMaker();
  GuestNetworkMaker(const GuestNetworkMaker&) = delete;
  GuestNetworkMaker& operator=(const GuestNetworkMaker&) = delete;

  // Once: waits for the child, which is gone when this returns. Throws Error{Unsupported} that says
  // what the host lacks and what to do.
  GuestNetwork take();

 private:
  sys::Fd channel_;
  pid_t child_ = -1;
};

}
