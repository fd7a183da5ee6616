#include "peer.h"

#include <poll.h>

namespace mvm::agent {

void Peer::wait_writable() {
  pollfd entry{socket_.get(), POLLOUT, 0};
  ::poll(&entry, 1, -1);
}

}
