#include "mvm/sys/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include "mvm/sys/error.h"

namespace mvm::sys {

void Fd::reset() noexcept {
  // EINTR and EIO leave the descriptor closed on Linux; who must know of write errors calls fsync
  // first.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Fd Fd::duplicate() const {
  return Fd(check(::fcntl(fd_, F_DUPFD_CLOEXEC, 3), "duplicating a descriptor"));
}

}
