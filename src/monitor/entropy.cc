#include "entropy.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/random.h>

namespace mvm::monitor {

bool HostEntropy::fill(std::span<std::byte> into) noexcept {
  std::array<std::byte, 256> buffer;  // up to this much getrandom(2) gives whole, uninterrupted
  while (!into.empty()) {
    const size_t wanted = std::min(into.size(), buffer.size());
    const ssize_t got = ::getrandom(buffer.data(), wanted, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    std::memcpy(into.data(), buffer.data(), static_cast<size_t>(got));
    into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

}
