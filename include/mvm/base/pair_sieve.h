#pragma once
// A set of pairs of bytes that what is looked for may begin with, as a sieve: what it holds it says
// so of, and of a few others too. A bit for each pair would be 8 KiB, which a cache has better uses
// for.

#include <array>
#include <cstdint>

namespace mvm {

class PairSieve {
 public:
  void add(char first, char second) noexcept { of(first) |= bit(second); }
  bool may_hold(char first, char second) const noexcept { return (of(first) & bit(second)) != 0; }
  // Whether some pair begins with it.
  bool begins(char first) const noexcept { return of(first) != 0; }
  void clear() noexcept { seconds_.fill(0); }

 private:
  static uint64_t bit(char second) noexcept {
    return uint64_t{1} << (static_cast<uint8_t>(second) & 63);
  }
  uint64_t& of(char first) noexcept { return seconds_[static_cast<uint8_t>(first)]; }
  uint64_t of(char first) const noexcept { return seconds_[static_cast<uint8_t>(first)]; }

  std::array<uint64_t, 256> seconds_{};
};

}
