#pragma once
// SHA-256, the name of everything that is addressed by content.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mvm/base/bytes.h"

namespace mvm::crypto {

using Digest = std::array<std::byte, 32>;

// Incremental: update() any number of times, then finish() once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteView data);
  Digest finish();
  // For other data: to make a new one costs as much as a short text does.
  void restart();
  // Of what has come so far; more may follow.
  Digest digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Digest sha256(ByteView data);
// Everything from the descriptor's offset 0 to its end, by pread; throws SystemError.
// `progress`, when given, is called with the bytes done so far.
Digest sha256_of_file(int fd, const std::function<void(uint64_t)>& progress = {});

std::string digest_hex(const Digest& digest);  // 64 lowercase hex digits

}
