#include "mvm/crypto/random.h"

#include <cerrno>
#include <vector>

#include <sys/random.h>

#include "mvm/sys/error.h"

namespace mvm::crypto {

void random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw SystemError(errno, "reading random bytes");
    out = out.subspan(static_cast<size_t>(got));
  }
}

std::string random_id(std::string_view prefix, size_t length) {
  static constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
  std::vector<std::byte> random(length);
  random_bytes(random);
  std::string id(prefix);
  // 256 is a multiple of 32, so the low five bits are uniform.
  for (const std::byte byte : random)
    id += kAlphabet[std::to_integer<size_t>(byte & std::byte{31})];
  return id;
}

}
