// Triggers with the vectors of AVX2: two of them are a block.

#include <immintrin.h>

#include "trigger_paths.h"
#include "trigger_sheet.h"

#define MVM_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define MVM_LANES 32

namespace mvm::protect {
namespace {

// One bit a byte: whether the bit that `Shift` moves to the top of its byte is set.
template <int Shift>
MVM_TARGET __attribute__((always_inline)) inline uint64_t bits_of(__m256i a, __m256i b) {
  const auto low = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(a, Shift)));
  const auto high = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(b, Shift)));
  return low | (uint64_t{high} << 32);
}

MVM_TARGET __attribute__((always_inline)) inline Block classify(const char* data) {
  const __m256i low_rows = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.low.data())));
  const __m256i high_rows = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.high.data())));
  const __m256i nibble = _mm256_set1_epi8(15);
  const __m256i at = _mm256_set1_epi8('@');
  const __m256i one = _mm256_set1_epi8(1);
  const __m256i last_blank = _mm256_set1_epi8(' ' - 1);
  __m256i texts[2];
  __m256i kinds[2];
  __m256i ats[2];
  __m256i blanks[2];
  for (size_t half = 0; half < 2; ++half) {
    const __m256i text = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + half * 32));
    const __m256i low = _mm256_shuffle_epi8(low_rows, _mm256_and_si256(text, nibble));
    const __m256i high =
        _mm256_shuffle_epi8(high_rows, _mm256_and_si256(_mm256_srli_epi16(text, 4), nibble));
    texts[half] = text;
    kinds[half] = _mm256_and_si256(low, high);
    ats[half] = _mm256_cmpeq_epi8(text, at);
    const __m256i less = _mm256_sub_epi8(text, one);
    blanks[half] = _mm256_cmpeq_epi8(_mm256_min_epu8(less, last_blank), less);
  }
  const uint64_t digit = bits_of<7>(kinds[0], kinds[1]);
  const uint64_t alpha = bits_of<6>(kinds[0], kinds[1]) | bits_of<5>(kinds[0], kinds[1]);
  const uint64_t marks = bits_of<4>(kinds[0], kinds[1]) | bits_of<3>(kinds[0], kinds[1]);
  Block out;
  out.digit = digit;
  out.alpha = alpha;
  out.upper = alpha & ~bits_of<2>(texts[0], texts[1]);  // bit 5 tells the case
  out.word = alpha | digit | marks;
  out.address = bits_of<0>(kinds[0], kinds[1]) | bits_of<2>(kinds[0], kinds[1]) | digit;
  out.separator = bits_of<1>(kinds[0], kinds[1]);
  out.at = bits_of<0>(ats[0], ats[1]);
  out.blank = bits_of<0>(blanks[0], blanks[1]);
  out.high = bits_of<0>(texts[0], texts[1]);
  return out;
}

}
}

#include "trigger_lanes.h"

namespace mvm::protect {

MVM_TARGET void find_avx2(const char* data, size_t blocks, char before, uint64_t* out) {
  find(data, blocks, before, out);
}

}
