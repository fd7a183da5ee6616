// Keccak-256 as Ethereum uses it: the original padding, not FIPS 202's, so OpenSSL's SHA3 does not
// do.

#include <array>
#include <bit>
#include <cstring>

#include "checks.h"
#include "letters.h"

namespace mvm::protect {
namespace {

using State = std::array<uint64_t, 25>;

void permute(State& a) noexcept {
  constexpr std::array<uint8_t, 24> kRotations = {1,  3,  6,  10, 15, 21, 28, 36, 45, 55, 2,  14,
                                                  27, 41, 56, 8,  25, 43, 62, 18, 39, 61, 20, 44};
  constexpr std::array<uint8_t, 24> kLanes = {10, 7,  11, 17, 18, 3, 5,  16, 8,  21, 24, 4,
                                              15, 23, 19, 13, 12, 2, 20, 14, 22, 9,  6,  1};
  uint8_t lfsr = 1;
  for (int round = 0; round < 24; ++round) {
    std::array<uint64_t, 5> c{};
    for (size_t x = 0; x < 5; ++x) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
    for (size_t x = 0; x < 5; ++x)
      for (size_t y = 0; y < 25; y += 5) a[y + x] ^= c[(x + 4) % 5] ^ std::rotl(c[(x + 1) % 5], 1);
    uint64_t moving = a[1];
    for (size_t i = 0; i < 24; ++i) {
      const uint64_t next = a[kLanes[i]];
      a[kLanes[i]] = std::rotl(moving, kRotations[i]);
      moving = next;
    }
    for (size_t y = 0; y < 25; y += 5) {
      const std::array<uint64_t, 5> row = {a[y], a[y + 1], a[y + 2], a[y + 3], a[y + 4]};
      for (size_t x = 0; x < 5; ++x) a[y + x] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
    }
    // The round constant, bit by bit from its shift register.
    for (unsigned j = 0; j < 7; ++j) {
      if ((lfsr & 1) != 0) a[0] ^= uint64_t{1} << ((1U << j) - 1);
      lfsr = static_cast<uint8_t>((lfsr << 1) ^ ((lfsr >> 7) * 0x71));
    }
  }
}

// Of at most 135 bytes: one block.
std::array<uint8_t, 32> keccak256(std::string_view bytes) noexcept {
  std::array<uint8_t, 200> block{};
  std::memcpy(block.data(), bytes.data(), bytes.size());
  block.at(bytes.size()) ^= 0x01;
  block[135] ^= 0x80;
  State state{};
  std::memcpy(state.data(), block.data(), 136);
  permute(state);
  std::array<uint8_t, 32> out{};
  std::memcpy(out.data(), state.data(), out.size());
  return out;
}

}

bool eip55(std::string_view forty_hex) {
  std::array<char, 40> lowered{};
  for (size_t i = 0; i < 40; ++i) lowered.at(i) = lower(forty_hex[i]);
  const auto hash = keccak256({lowered.data(), lowered.size()});
  for (size_t i = 0; i < 40; ++i) {
    if (!is(forty_hex[i], kAlpha)) continue;
    const unsigned nibble = (hash.at(i / 2) >> (i % 2 == 0 ? 4 : 0)) & 15U;
    if ((nibble >= 8) != is(forty_hex[i], kUpper)) return false;
  }
  return true;
}

}
