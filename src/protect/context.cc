// What is read before a value: as bit masks of up to 64 bytes, so that its words are found by
// counting bits, from the last to the first.

#include "context.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include <emmintrin.h>

#include "context_words.h"

namespace mvm::protect {
namespace {

constexpr size_t kReach = 64;

// One bit a byte of what is read before a value, the byte before it at the top.
struct Kinds {
  uint64_t alpha = 0;
  uint64_t upper = 0;
  uint64_t digit = 0;
  uint64_t word = 0;  // alpha, digit, '_', '-'
  uint64_t high = 0;
  uint64_t field = 0;  // separates fields, or may
};

template <typename... Bytes>
__m128i any_of(__m128i text, Bytes... bytes) {
  return (... | _mm_cmpeq_epi8(text, _mm_set1_epi8(bytes)));
}
// The `count` bytes from `first` on.
__m128i any_from(__m128i text, char first, int count) {
  const __m128i less = _mm_sub_epi8(text, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(less, _mm_set1_epi8(static_cast<char>(count - 1))), less);
}
uint64_t bits_of(__m128i set) {
  return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(set)));
}

// Adds what 16 bytes are, at `from`.
void classify(const char* data, size_t from, Kinds& out) {
  const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
  const __m128i case_bit = _mm_set1_epi8(0x20);
  const __m128i alpha = any_from(text | case_bit, 'a', 26);
  const __m128i digit = any_from(text, '0', 10);
  const __m128i upper = _mm_andnot_si128(_mm_cmpeq_epi8(text & case_bit, case_bit), alpha);
  out.alpha |= bits_of(alpha) << from;
  out.upper |= bits_of(upper) << from;
  out.digit |= bits_of(digit) << from;
  out.word |= bits_of(alpha | digit | any_of(text, '_', '-')) << from;
  out.high |= bits_of(text) << from;
  out.field |=
      bits_of(any_from(text, '\t', 2) | any_from(text, '{', 3) | any_of(text, '&', ';', ','))
      << from;
}

// Whether the mark at `i` ends a field: of commas only those beside quotes do.
bool ends_field(std::string_view text, size_t i) {
  const auto quote = [&](size_t at) {
    return at < text.size() && (text[at] == '"' || text[at] == '\'');
  };
  return text[i] != ',' || quote(i + 1) ||
         (i + 1 < text.size() && text[i + 1] == ' ' && quote(i + 2)) ||
         (i > 0 && text[i - 1] == '"');
}

// The bits below the one at `end`.
uint64_t below(size_t end) { return end >= 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1; }
size_t top(uint64_t mask) { return static_cast<size_t>(std::bit_width(mask)); }

// Reads from the end of the text back to where the field of the value begins: behind the last thing
// that separates fields. Returns where that is; nothing before it is in the masks.
size_t read_field(std::string_view text, Kinds& kinds) {
  constexpr size_t kPart = 16;
  for (size_t end = text.size(); end > 0;) {
    const size_t from = end - std::min(end, kPart);
    if (end - from < kPart) {
      std::array<char, kPart> rest{};  // the bytes before the last whole part
      std::memcpy(rest.data(), text.data(), end);
      classify(rest.data(), 0, kinds);
    } else {
      classify(text.data() + from, from, kinds);
    }
    for (uint64_t marks = kinds.field & below(end); marks != 0;) {
      const size_t mark = top(marks) - 1;
      if (ends_field(text, mark)) {
        const uint64_t kept = ~below(mark + 1);
        kinds.alpha &= kept;
        kinds.upper &= kept;
        kinds.digit &= kept;
        kinds.word &= kept;
        kinds.high &= kept;
        return mark + 1;
      }
      marks ^= uint64_t{1} << mark;
    }
    end = from;
  }
  return 0;
}

}

uint32_t context_before(const Window& window, size_t start) {
  std::string_view text = window.behind(start, kReach);
  Kinds kinds;
  const size_t field = read_field(text, kinds);
  uint32_t says = 0;
  bool high = false;
  bool digits = false;
  // Words from the last to the first: each ends with a letter, what is between them are gaps.
  for (size_t end = text.size(); end > field;) {
    const size_t last = top(kinds.alpha & below(end));
    const uint64_t gap = below(end) & ~below(last);
    high = high || (kinds.high & gap) != 0;
    // Words before another value speak of that one.
    digits = digits || (kinds.digit & gap) != 0;
    if (says != 0 && digits) return says;
    if (last == 0) break;
    const size_t from = top(~kinds.word & below(last));
    const uint64_t word = below(last) & ~below(from);
    const uint64_t marks = kinds.word & ~(kinds.alpha | kinds.digit);
    const uint64_t humps = kinds.upper & ((kinds.alpha & ~kinds.upper & word) << 1);
    const std::string_view written = text.substr(from, last - from);
    const uint32_t meant =
        ((marks | humps) & word) != 0 ? meaning_of_label(written) : meaning(written);
    // The start of the reach may have cut this word: then it says nothing.
    const bool cut = from == 0 && text.size() == kReach;
    if (!cut) {
      if (says == 0 && !high && meant == kSaysOther) return digits ? 0 : uint32_t{kSaysOther};
      says |= meant & ~uint32_t{kSaysOther};
    }
    end = from;
  }
  text.remove_prefix(field);
  if (!high) return says;
  return says_in(text, says);
}

}
