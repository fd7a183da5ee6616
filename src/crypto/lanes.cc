// FIPS 180-4, section 6.2.2, where each variable of the standard is a register of 16 lanes. Nothing
// depends on the data but values, so it runs in constant time.

#include "lanes.h"

#include <array>

#include <immintrin.h>

// GCC 12 takes what an intrinsic leaves undefined on purpose for a mistake; clang has no such
// warning.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define MVM_TARGET __attribute__((target("avx512f,avx512bw")))
#define MVM_INLINE MVM_TARGET __attribute__((always_inline)) static inline

namespace mvm::crypto {

static_assert(kTreePiece == kLanes * kTreeLeaf);

static constexpr size_t kBlock = 64;  // bytes
static constexpr std::array<uint32_t, 8> kStart{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static constexpr std::array<uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

namespace {

using Words = __m512i;  // one of each lane

// Ternary logic by its truth table: bit 4a+2b+c.
constexpr int kXor = 0x96;
constexpr int kChoose = 0xca;  // a ? b : c
constexpr int kMajority = 0xe8;

template <int kA, int kB, int kC>
MVM_INLINE Words big_sigma(Words x) {
  return _mm512_ternarylogic_epi32(_mm512_ror_epi32(x, kA), _mm512_ror_epi32(x, kB),
                                   _mm512_ror_epi32(x, kC), kXor);
}
template <int kA, int kB, int kShift>
MVM_INLINE Words small_sigma(Words x) {
  return _mm512_ternarylogic_epi32(_mm512_ror_epi32(x, kA), _mm512_ror_epi32(x, kB),
                                   _mm512_srli_epi32(x, kShift), kXor);
}
MVM_INLINE Words add(Words a, Words b) { return _mm512_add_epi32(a, b); }

// The 64 rounds over one block of each lane, whose words are in `w`.
MVM_INLINE void compress(Words* state, Words* w) {
  Words a = state[0], b = state[1], c = state[2], d = state[3];
  Words e = state[4], f = state[5], g = state[6], h = state[7];
  for (size_t group = 0; group < kRound.size(); group += 16) {
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; ++i) {
      if (group > 0)
        w[i] = add(add(w[i], small_sigma<7, 18, 3>(w[(i + 1) % 16])),
                   add(w[(i + 9) % 16], small_sigma<17, 19, 10>(w[(i + 14) % 16])));
      const Words constant = _mm512_set1_epi32(static_cast<int>(kRound[group + i]));
      const Words t =
          add(add(add(h, w[i]), constant),
              add(big_sigma<6, 11, 25>(e), _mm512_ternarylogic_epi32(e, f, g, kChoose)));
      const Words u = add(big_sigma<2, 13, 22>(a), _mm512_ternarylogic_epi32(a, b, c, kMajority));
      h = g;
      g = f;
      f = e;
      e = add(d, t);
      d = c;
      c = b;
      b = a;
      a = add(t, u);
    }
  }
  const Words now[8]{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] = add(state[i], now[i]);
}

// From a block of each lane in a register to word i of each lane in register i.
MVM_INLINE void transpose(Words* r) {
  Words t[16];
#pragma GCC unroll 8
  for (size_t i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

}

bool have_lanes() { return __builtin_cpu_supports("avx512bw") != 0; }

MVM_TARGET void sha256_of_leaves(std::span<const std::byte, kTreePiece> piece,
                                 std::span<Digest, kLanes> out) {
  const Words big_endian =
      _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
  Words state[8];
  for (size_t i = 0; i < 8; ++i) state[i] = _mm512_set1_epi32(static_cast<int>(kStart[i]));
  Words w[16];
  for (size_t at = 0; at < kTreeLeaf; at += kBlock) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      // In bounds: the last block of the last leaf ends with the piece.
      w[lane] = _mm512_shuffle_epi8(_mm512_loadu_si512(&piece[lane * kTreeLeaf + at]), big_endian);
    transpose(w);
    compress(state, w);
  }
  // The end is that of any message of this length: a bit, zeros, the number of bits.
  for (Words& word : w) word = _mm512_setzero_si512();
  w[0] = _mm512_set1_epi32(static_cast<int>(0x80000000));
  w[15] = _mm512_set1_epi32(int{kTreeLeaf * 8});
  compress(state, w);
  for (size_t i = 0; i < 8; ++i) {
    alignas(64) std::array<uint32_t, kLanes> words;
    _mm512_store_si512(words.data(), state[i]);
    for (size_t lane = 0; lane < kLanes; ++lane)
      for (size_t byte = 0; byte < 4; ++byte)
        out[lane][4 * i + byte] = static_cast<std::byte>(words[lane] >> (24 - 8 * byte));
  }
}

}
