#include "trigger.h"

#include <array>

#include <immintrin.h>

#include "letters.h"

namespace mvm::protect {
namespace {

__extension__ using Wide = unsigned __int128;  // a block and the one after it

// One bit a kind of byte. The low and the high half of a byte each select a row of 16; a byte is of
// the kinds whose bit is in both.
enum : uint8_t {
  kBitDigit = 1,
  kBitUpperRows = 2,  // A-O, a-o
  kBitLowerRows = 4,  // P-Z, p-z
  kBitUnderscore = 8,
  kBitDash = 16,
  kBitColon = 32,
  kBitAt = 64,
  kBitHex = 128,  // A-F, a-f
};

struct Rows {
  alignas(16) std::array<uint8_t, 16> low{};
  alignas(16) std::array<uint8_t, 16> high{};
};
constexpr Rows kRows = [] {
  Rows rows;
  const auto add = [&](uint8_t bit, std::initializer_list<int> highs, int from, int to) {
    for (const int high : highs) rows.high[static_cast<size_t>(high)] |= bit;
    for (int low = from; low <= to; ++low) rows.low[static_cast<size_t>(low)] |= bit;
  };
  add(kBitDigit, {3}, 0, 9);
  add(kBitUpperRows, {4, 6}, 1, 15);
  add(kBitLowerRows, {5, 7}, 0, 10);
  add(kBitUnderscore, {5}, 15, 15);
  add(kBitDash, {2}, 13, 13);
  add(kBitColon, {3}, 10, 10);
  add(kBitAt, {4}, 0, 0);
  add(kBitHex, {4, 6}, 1, 6);
  return rows;
}();

struct Masks {
  uint64_t digit = 0;
  uint64_t word = 0;
  uint64_t dash = 0;
  uint64_t colon = 0;
  uint64_t at = 0;
  uint64_t hex = 0;  // hexadecimal digits and colons
};

inline Wide join(uint64_t low, uint64_t high) { return (Wide{high} << 64) | low; }
// Bits from which `mask` runs for at least 15 (or 16).
inline Wide run15(Wide mask) {
  const Wide two = mask & (mask >> 1);
  const Wide four = two & (two >> 2);
  const Wide eight = four & (four >> 4);
  return eight & (eight >> 7);
}

inline uint64_t combine(const Masks& now, const Masks& next, Masks& before) {
  const auto starts = [](uint64_t mask, uint64_t previous) {
    return mask & ~((mask << 1) | (previous >> 63));
  };
  const Wide word = join(now.word, next.word);
  const Wide hex = join(now.hex, next.hex);
  const Wide colon = join(now.colon, next.colon);
  const Wide dash = join(now.dash, next.dash);
  const Wide two_dashes = dash & (dash >> 1);
  const auto low = [](Wide bits) { return static_cast<uint64_t>(bits); };

  uint64_t out = now.at | starts(now.digit, before.digit);
  const Wide fifteen = run15(word);
  out |= starts(now.word, before.word) & low(fifteen & (fifteen >> 1));
  out |= low(colon & (colon >> 1));
  out |= starts(now.hex, before.hex) & low(run15(hex)) &
         low((colon >> 1) | (colon >> 2) | (colon >> 3) | (colon >> 4));
  out |= starts(now.dash, before.dash) & low(two_dashes & (two_dashes >> 2) & (dash >> 4));
  before = now;
  return out;
}

__attribute__((target("avx2"))) inline uint64_t bits_of(__m256i a, __m256i b, int shift) {
  const auto top = [&](__m256i v) __attribute__((target("avx2"))) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(v, shift)));
  };
  return top(a) | (uint64_t{top(b)} << 32);
}

__attribute__((target("avx2"))) inline Masks classify_avx2(const char* block) {
  // The tables are 16 bytes each and aligned; unaligned loads of the text are within its padding.
  const __m256i low_rows = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.low.data())));
  const __m256i high_rows = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.high.data())));
  const __m256i nibble = _mm256_set1_epi8(15);
  __m256i kinds[2];
  for (size_t half = 0; half < 2; ++half) {
    const __m256i text = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + half * 32));
    const __m256i low = _mm256_shuffle_epi8(low_rows, _mm256_and_si256(text, nibble));
    const __m256i high =
        _mm256_shuffle_epi8(high_rows, _mm256_and_si256(_mm256_srli_epi16(text, 4), nibble));
    kinds[half] = _mm256_and_si256(low, high);
  }
  Masks out;
  out.digit = bits_of(kinds[0], kinds[1], 7);
  out.dash = bits_of(kinds[0], kinds[1], 3);
  out.colon = bits_of(kinds[0], kinds[1], 2);
  out.at = bits_of(kinds[0], kinds[1], 1);
  out.hex = bits_of(kinds[0], kinds[1], 0) | out.digit | out.colon;
  out.word = bits_of(kinds[0], kinds[1], 6) | bits_of(kinds[0], kinds[1], 5) |
             bits_of(kinds[0], kinds[1], 4) | out.dash | out.digit;
  return out;
}

Masks classify_portable(const char* block) {
  Masks out;
  for (size_t i = 0; i < 64; ++i) {
    const char c = block[i];
    const uint64_t bit = uint64_t{1} << i;
    if (is(c, kDigit)) out.digit |= bit;
    if (is(c, kAlnum | kWordMark)) out.word |= bit;
    if (c == '-') out.dash |= bit;
    if (c == ':') out.colon |= bit;
    if (c == '@') out.at |= bit;
    if (is_hex(c) || c == ':') out.hex |= bit;
  }
  return out;
}

Masks before_first(char before) {
  std::array<char, 64> block{};
  block[63] = before;
  return classify_portable(block.data());
}

__attribute__((target("avx2"))) void find_avx2(const char* data, size_t blocks, char before,
                                               uint64_t* out) {
  Masks previous = before_first(before);
  Masks now = classify_avx2(data);
  for (size_t i = 0; i < blocks; ++i) {
    const Masks next = classify_avx2(data + (i + 1) * 64);
    out[i] = combine(now, next, previous);
    now = next;
  }
}

}

void find_triggers_portable(const char* data, size_t blocks, char before, uint64_t* out) noexcept {
  Masks previous = before_first(before);
  Masks now = classify_portable(data);
  for (size_t i = 0; i < blocks; ++i) {
    const Masks next = classify_portable(data + (i + 1) * 64);
    out[i] = combine(now, next, previous);
    now = next;
  }
}

void find_triggers(const char* data, size_t blocks, char before, uint64_t* out) noexcept {
  static const bool kVectors = __builtin_cpu_supports("avx2") != 0;
  if (kVectors)
    find_avx2(data, blocks, before, out);
  else
    find_triggers_portable(data, blocks, before, out);
}

}
