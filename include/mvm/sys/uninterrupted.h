#pragma once
// Calls that a signal may interrupt. That is nobody's fault, and no reason to give up: of fsync(2)
// and open(2) too, on file systems over the network or in user space.

#include <cerrno>

namespace mvm::sys {

// What `call` returns once it was not interrupted; errno is its own.
template <typename Call>
auto uninterrupted(const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}
