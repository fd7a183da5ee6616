#include "trigger.h"

#include <array>
#include <bit>
#include <string_view>

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
  kBitSeparator = 64,  // of digits: space ( ) - . /
  kBitHex = 128,       // A-F, a-f
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
  for (const int low : {0, 8, 9, 13, 14, 15}) add(kBitSeparator, {2}, low, low);
  add(kBitHex, {4, 6}, 1, 6);
  return rows;
}();

struct Masks {
  uint64_t digit = 0;
  uint64_t word = 0;
  uint64_t dash = 0;
  uint64_t colon = 0;
  uint64_t at = 0;
  uint64_t hex = 0;     // hexadecimal digits and colons
  uint64_t number = 0;  // digits and their separators
  uint64_t label = 0;   // capitals and digits
  uint64_t high = 0;    // beyond ASCII
};

// What a block needs of the one before it: whether its last byte was one of these.
struct Last {
  uint64_t digit = 0;
  uint64_t word = 0;
  uint64_t dash = 0;
  uint64_t hex = 0;
};
inline Last last_of(const Masks& masks) {
  return {masks.digit >> 63, masks.word >> 63, masks.dash >> 63, masks.hex >> 63};
}

inline Wide join(uint64_t low, uint64_t high) { return (Wide{high} << 64) | low; }
// Bits from which `mask` runs for at least 15 (or 16).
inline Wide run15(Wide mask) {
  const Wide two = mask & (mask >> 1);
  const Wide four = two & (two >> 2);
  const Wide eight = four & (four >> 4);
  return eight & (eight >> 7);
}

// Of the numbers that begin in the block those that could be something; the rest of a page's
// digits, most of them, are not worth a look.
__attribute__((always_inline)) inline uint64_t numbers(const char* block, const Masks& now,
                                                       const Masks& next, uint64_t last_digit) {
  const Wide number = join(now.number, next.number);
  const Wide pairs = number & (number >> 1);
  uint64_t starts =
      now.digit & ~((now.digit << 1) | last_digit) & static_cast<uint64_t>(pairs & (pairs >> 2));
  uint64_t out = 0;
  while (starts != 0) {
    const auto at = static_cast<unsigned>(std::countr_zero(starts));
    const auto rest = static_cast<uint64_t>(number >> at);
    const auto length = static_cast<unsigned>(std::countr_one(rest));  // up to 64
    const uint64_t kept = length == 64 ? ~uint64_t{0} : (uint64_t{1} << length) - 1;
    const uint64_t digits = static_cast<uint64_t>(join(now.digit, next.digit) >> at) & kept;
    const int count = std::popcount(digits);
    // Few digits matter in three groups or more (an address, a date), or with three behind a point.
    const uint64_t later = digits & (digits + 1);
    const bool grouped =
        std::popcount(later & ~(later << 1)) >= 2 || (later & (later >> 1) & (later >> 2)) != 0;
    const bool year = count == 4 && ((block[at] == '1' && block[at + 1] == '9') ||
                                     (block[at] == '2' && block[at + 1] == '0'));
    if (count >= 6 || (count >= 4 && grouped) || year) out |= uint64_t{1} << at;
    starts &= starts - 1;
  }
  return out;
}

__attribute__((always_inline)) inline uint64_t combine(const char* block, const Masks& now,
                                                       const Masks& next, const Last& before) {
  const auto starts = [](uint64_t mask, uint64_t last) { return mask & ~((mask << 1) | last); };
  const auto low = [](Wide bits) { return static_cast<uint64_t>(bits); };
  uint64_t out = now.at;
  if (now.digit != 0) out |= numbers(block, now, next, before.digit);
  const Wide high = join(now.high, next.high);
  if (high != 0) out |= now.digit & low(high >> 1);

  const Wide word = join(now.word, next.word);
  const Wide fifteen = run15(word);
  const uint64_t words = starts(now.word, before.word);
  out |= words & low(fifteen & (fifteen >> 1));
  const Wide label = join(now.label, next.label);
  const Wide label2 = label & (label >> 1);
  const Wide label4 = label2 & (label2 >> 2);
  const uint64_t labels = words & ~now.digit & low(label4 & (label4 >> 4) & (label >> 8));
  if (labels != 0) {
    const Wide digit = join(now.digit, next.digit);
    const Wide digit2 = (digit >> 1) | (digit >> 2);
    const Wide digit4 = digit2 | (digit2 >> 2);
    out |= labels & low(digit4 | (digit4 >> 4));
  }
  if (now.colon != 0 || next.colon != 0) {
    const Wide hex = join(now.hex, next.hex);
    const Wide colon = join(now.colon, next.colon);
    out |= low(colon & (colon >> 1));
    out |= starts(now.hex, before.hex) & low(run15(hex)) &
           low((colon >> 1) | (colon >> 2) | (colon >> 3) | (colon >> 4));
  }
  if (now.dash != 0) {
    const Wide dash = join(now.dash, next.dash);
    const Wide two = dash & (dash >> 1);
    out |= starts(now.dash, before.dash) & low(two & (two >> 2) & (dash >> 4));
  }
  return out;
}

// One bit a byte: whether the bit that `Shift` moves to the top of its byte is set.
template <int Shift>
__attribute__((target("avx2,bmi,popcnt"), always_inline)) inline uint64_t bits_of(__m256i a,
                                                                                  __m256i b) {
  const auto low = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(a, Shift)));
  const auto high = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(b, Shift)));
  return low | (uint64_t{high} << 32);
}

__attribute__((target("avx2,bmi,popcnt"), always_inline)) inline Masks classify_avx2(
    const char* block) {
  // The tables are 16 bytes each and aligned; unaligned loads of the text are within its padding.
  const __m256i low_rows = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.low.data())));
  const __m256i high_rows = _mm256_broadcastsi128_si256(
      _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.high.data())));
  const __m256i nibble = _mm256_set1_epi8(15);
  __m256i texts[2];
  __m256i kinds[2];
  for (size_t half = 0; half < 2; ++half) {
    const __m256i text = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + half * 32));
    const __m256i low = _mm256_shuffle_epi8(low_rows, _mm256_and_si256(text, nibble));
    const __m256i high =
        _mm256_shuffle_epi8(high_rows, _mm256_and_si256(_mm256_srli_epi16(text, 4), nibble));
    texts[half] = text;
    kinds[half] = _mm256_and_si256(low, high);
  }
  const __m256i at = _mm256_set1_epi8('@');
  Masks out;
  out.digit = bits_of<7>(kinds[0], kinds[1]);
  out.dash = bits_of<3>(kinds[0], kinds[1]);
  out.colon = bits_of<2>(kinds[0], kinds[1]);
  out.number = bits_of<1>(kinds[0], kinds[1]) | out.digit;
  out.hex = bits_of<0>(kinds[0], kinds[1]) | out.digit | out.colon;
  const uint64_t alpha = bits_of<6>(kinds[0], kinds[1]) | bits_of<5>(kinds[0], kinds[1]);
  out.word = alpha | bits_of<4>(kinds[0], kinds[1]) | out.dash | out.digit;
  out.label = (alpha & ~bits_of<2>(texts[0], texts[1])) | out.digit;  // bit 5 tells the case
  out.high = bits_of<0>(texts[0], texts[1]);
  out.at = bits_of<0>(_mm256_cmpeq_epi8(texts[0], at), _mm256_cmpeq_epi8(texts[1], at));
  return out;
}

void classify_byte(Masks& out, char c, uint64_t bit) {
  if (is(c, kDigit)) out.digit |= bit;
  if (is(c, kAlnum | kWordMark)) out.word |= bit;
  if (c == '-') out.dash |= bit;
  if (c == ':') out.colon |= bit;
  if (c == '@') out.at |= bit;
  if (is_hex(c) || c == ':') out.hex |= bit;
  if (is(c, kDigit) || (c != '\0' && std::string_view(" ()-./").find(c) != std::string_view::npos))
    out.number |= bit;
  if (is(c, kDigit | kUpper)) out.label |= bit;
  if (is(c, kHigh)) out.high |= bit;
}

Masks classify_portable(const char* block) {
  Masks out;
  for (size_t i = 0; i < 64; ++i) classify_byte(out, block[i], uint64_t{1} << i);
  return out;
}

Last before_first(char before) {
  Masks out;
  classify_byte(out, before, uint64_t{1} << 63);
  return last_of(out);
}

__attribute__((target("avx2,bmi,popcnt"))) void find_avx2(const char* data, size_t blocks,
                                                          char before, uint64_t* out) {
  Last last = before_first(before);
  Masks now = classify_avx2(data);
  for (size_t i = 0; i < blocks; ++i) {
    const Masks next = classify_avx2(data + (i + 1) * 64);
    out[i] = combine(data + i * 64, now, next, last);
    last = last_of(now);
    now = next;
  }
}

// With 64 bytes a vector, each mask is one instruction.
__attribute__((target("avx512f,avx512bw,bmi,popcnt"), always_inline)) inline Masks classify_avx512(
    const char* block) {
  const __m512i low_rows = _mm512_maskz_broadcast_i32x4(
      0xffff, _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.low.data())));
  const __m512i high_rows = _mm512_maskz_broadcast_i32x4(
      0xffff, _mm_load_si128(reinterpret_cast<const __m128i*>(kRows.high.data())));
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i text = _mm512_loadu_si512(block);
  const __m512i low = _mm512_shuffle_epi8(low_rows, _mm512_and_si512(text, nibble));
  const __m512i high =
      _mm512_shuffle_epi8(high_rows, _mm512_and_si512(_mm512_srli_epi16(text, 4), nibble));
  const __m512i kinds = _mm512_and_si512(low, high);
  const auto bits = [](__m512i in, int bit) __attribute__((target("avx512f,avx512bw"))) {
    return static_cast<uint64_t>(
        _mm512_test_epi8_mask(in, _mm512_set1_epi8(static_cast<char>(bit))));
  };
  Masks out;
  out.digit = bits(kinds, kBitDigit);
  out.dash = bits(kinds, kBitDash);
  out.colon = bits(kinds, kBitColon);
  out.number = bits(kinds, kBitSeparator | kBitDigit);
  out.hex = bits(kinds, kBitHex | kBitDigit | kBitColon);
  out.word = bits(kinds, kBitUpperRows | kBitLowerRows | kBitUnderscore | kBitDash | kBitDigit);
  const uint64_t alpha = bits(kinds, kBitUpperRows | kBitLowerRows);
  out.label = (alpha & ~bits(text, 32)) | out.digit;  // bit 5 tells the case
  out.high = static_cast<uint64_t>(_mm512_movepi8_mask(text));
  out.at = static_cast<uint64_t>(_mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8('@')));
  return out;
}

__attribute__((target("avx512f,avx512bw,bmi,popcnt"))) void find_avx512(const char* data,
                                                                        size_t blocks, char before,
                                                                        uint64_t* out) {
  Last last = before_first(before);
  Masks now = classify_avx512(data);
  for (size_t i = 0; i < blocks; ++i) {
    const Masks next = classify_avx512(data + (i + 1) * 64);
    out[i] = combine(data + i * 64, now, next, last);
    last = last_of(now);
    now = next;
  }
}

void find_portable(const char* data, size_t blocks, char before, uint64_t* out) {
  Last last = before_first(before);
  Masks now = classify_portable(data);
  for (size_t i = 0; i < blocks; ++i) {
    const Masks next = classify_portable(data + (i + 1) * 64);
    out[i] = combine(data + i * 64, now, next, last);
    last = last_of(now);
    now = next;
  }
}

Vectors best() {
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("bmi") == 0)
    return Vectors::None;
  return __builtin_cpu_supports("avx512bw") != 0 ? Vectors::Avx512 : Vectors::Avx2;
}

}

bool find_triggers_with(Vectors vectors, const char* data, size_t blocks, char before,
                        uint64_t* out) noexcept {
  static const Vectors kBest = best();
  if (vectors > kBest) return false;
  switch (vectors) {
    case Vectors::Avx512:
      find_avx512(data, blocks, before, out);
      break;
    case Vectors::Avx2:
      find_avx2(data, blocks, before, out);
      break;
    case Vectors::None:
      find_portable(data, blocks, before, out);
      break;
  }
  return true;
}

void find_triggers(const char* data, size_t blocks, char before, uint64_t* out) noexcept {
  for (const Vectors vectors : {Vectors::Avx512, Vectors::Avx2, Vectors::None})
    if (find_triggers_with(vectors, data, blocks, before, out)) return;
}

}
