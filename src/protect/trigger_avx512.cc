// Triggers with the vectors of AVX-512: a block is one, and each mask one instruction.

#include <immintrin.h>

#include "trigger_paths.h"
#include "trigger_sheet.h"

#define MVM_TARGET __attribute__((target("avx512f,avx512bw,avx2,bmi,bmi2,popcnt")))
#define MVM_LANES 64

namespace mvm::protect {
namespace {

MVM_TARGET __attribute__((always_inline)) inline __mmask64 with(__m512i kinds, int bits) {
  return _mm512_test_epi8_mask(kinds, _mm512_set1_epi8(static_cast<char>(bits)));
}

// To memory by way of a general register: straight from a mask takes the processor twice as long.
MVM_TARGET __attribute__((always_inline)) inline uint64_t bits_of(__mmask64 mask) {
  uint64_t bits = mask;
  asm("" : "+r"(bits));
  return bits;
}

MVM_TARGET __attribute__((always_inline)) inline Block classify(const char* data) {
  const __m512i low_rows = _mm512_maskz_broadcast_i32x4(
      0xffff, _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.low.data())));
  const __m512i high_rows = _mm512_maskz_broadcast_i32x4(
      0xffff, _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.high.data())));
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i text = _mm512_loadu_si512(data);
  const __m512i low = _mm512_shuffle_epi8(low_rows, _mm512_and_si512(text, nibble));
  const __m512i high =
      _mm512_shuffle_epi8(high_rows, _mm512_and_si512(_mm512_srli_epi16(text, 4), nibble));
  const __m512i kinds = _mm512_and_si512(low, high);
  const __mmask64 alpha = with(kinds, kBitUpperRows | kBitLowerRows);
  const __m512i less = _mm512_sub_epi8(text, _mm512_set1_epi8(1));
  Block out;
  out.digit = bits_of(with(kinds, kBitDigit));
  out.alpha = bits_of(alpha);
  out.upper =  // bit 5 tells the case
      bits_of(_mm512_mask_testn_epi8_mask(alpha, text, _mm512_set1_epi8(32)));
  out.word =
      bits_of(with(kinds, kBitUpperRows | kBitLowerRows | kBitDigit | kBitUnderscore | kBitDash));
  out.address = bits_of(with(kinds, kBitHex | kBitDigit | kBitColon));
  out.separator = bits_of(with(kinds, kBitSeparator));
  out.at = bits_of(_mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8('@')));
  out.blank = bits_of(_mm512_cmplt_epu8_mask(less, _mm512_set1_epi8(' ')));
  out.high = bits_of(_mm512_movepi8_mask(text));
  return out;
}

}
}

#include "trigger_lanes.h"

namespace mvm::protect {

MVM_TARGET void find_avx512(const char* data, size_t blocks, char before, uint64_t* out) {
  find(data, blocks, before, out);
}

}
