// The part of find_triggers() that is the same for every instruction set, compiled for each: the
// file that includes this defines MVM_TARGET, the attribute of its functions, and MVM_LANES, the
// bytes of its vectors, and has classify(), which tells the kinds of a block's bytes.
//
// A vector holds a mask of several blocks, a lane each, so that a step of the combining below is
// one instruction for all of them. A run of 16 is found in four steps, by doubling what is known:
// of two, of four, of eight.

#include <algorithm>
#include <cstring>

#include "trigger_sheet.h"

namespace mvm::protect {
namespace {

using Lanes = uint64_t __attribute__((vector_size(MVM_LANES)));
constexpr size_t kLanes = sizeof(Lanes) / sizeof(uint64_t);

#define MVM_INLINE MVM_TARGET __attribute__((always_inline)) inline

MVM_INLINE Lanes load(const Marks& marks, size_t block) {
  Lanes out;
  std::memcpy(&out, marks + block, sizeof(out));
  return out;
}
MVM_INLINE void store(Lanes lanes, Marks& marks, size_t block) {
  std::memcpy(marks + block, &lanes, sizeof(lanes));
}

// A mask of the blocks, and that of the block after each.
struct Pair {
  Lanes now;
  Lanes next;
};
MVM_INLINE Pair pair(const Marks& marks, size_t block) {
  return {load(marks, block), load(marks, block + 1)};
}
MVM_INLINE Pair operator|(const Pair& a, const Pair& b) { return {a.now | b.now, a.next | b.next}; }
MVM_INLINE Pair operator&(const Pair& a, const Pair& b) { return {a.now & b.now, a.next & b.next}; }

// The bits that are so many bytes further on, or back.
MVM_INLINE Lanes ahead(const Pair& mask, int bytes) {
  return (mask.now >> bytes) | (mask.next << (64 - bytes));
}
MVM_INLINE Lanes behind(Lanes now, Lanes before, int bytes) {
  return (now << bytes) | (before >> (64 - bytes));
}
// Both that bit and the one so many bytes further on; or either. What is computed of the next block
// holds for all of its bytes but its last ones, farther than any run that is looked for.
MVM_INLINE Pair both(const Pair& mask, int bytes) {
  return {mask.now & ahead(mask, bytes), mask.next & (mask.next >> bytes)};
}
MVM_INLINE Pair either(const Pair& mask, int bytes) {
  return {mask.now | ahead(mask, bytes), mask.next | (mask.next >> bytes)};
}

MVM_INLINE void combine(Sheet& sheet, size_t block) {
  const Pair digit = pair(sheet.digit, block);
  const Pair alpha = pair(sheet.alpha, block);
  const Pair upper = pair(sheet.upper, block);
  const Pair word = pair(sheet.word, block);
  const Pair separator = pair(sheet.separator, block);
  const Lanes digit_before = load(sheet.digit, block - 1);
  const Lanes alpha_before = load(sheet.alpha, block - 1);
  const Lanes word_before = load(sheet.word, block - 1);

  // '@', but not of "@param" behind a blank, nor the marks of a diff.
  const Pair at = pair(sheet.at, block);
  const Pair none = pair(sheet.blank, block) | at;
  const Lanes none_before = load(sheet.blank, block - 1) | load(sheet.at, block - 1);
  Lanes out = at.now & ~ahead(none, 1) & ~behind(none.now, none_before, 1);

  out |= digit.now & ahead(pair(sheet.high, block), 1);

  const Lanes words = word.now & ~behind(word.now, word_before, 1);
  const Pair word8 = both(both(both(word, 1), 2), 4);
  out |= words & word8.now & ahead(word8, 8);

  const Pair label = upper | digit;
  const Pair label4 = both(both(label, 1), 2);
  const Pair digit4 = either(either(digit, 1), 2);
  out |= words & ~digit.now & label4.now & ahead(label4, 4) & ahead(label, 8) &
         (ahead(digit4, 1) | ahead(digit4, 5));

  const Pair address = pair(sheet.address, block);
  const Lanes address_before = load(sheet.address, block - 1);
  const Lanes address_behind = behind(address.now, address_before, 1);
  const Pair address8 = both(both(both(address, 1), 2), 4);
  const Pair colon = {address.now & ~(alpha.now | digit.now),
                      address.next & ~(alpha.next | digit.next)};
  out |= address.now & ~address_behind & address8.now & ahead(address8, 7) &
         ahead(either(either(colon, 1), 2), 1);
  out |= colon.now & ahead(colon, 1) & address_behind & behind(address.now, address_before, 2) &
         behind(address.now, address_before, 3) & behind(address.now, address_before, 4);

  const Pair dash = word & separator;
  const Lanes dash_before = word_before & load(sheet.separator, block - 1);
  const Pair dash2 = both(dash, 1);
  out |=
      dash.now & ~behind(dash.now, dash_before, 1) & dash2.now & ahead(dash2, 2) & ahead(dash, 4);
  store(out, sheet.out, block);

  // Numbers of six digits, of six bytes with the separators, as "1.234", and of four digits alone
  // (a year). Not those behind a small letter, which are parts of names: "bf269f4", "cu121".
  const Pair number = separator | digit;
  const Pair number2 = both(number, 1);
  const Lanes number4 = number2.now & ahead(number2, 2);
  const Pair digit2 = both(digit, 1);
  const Pair run4 = both(digit2, 2);
  const Lanes worth = (run4.now & (ahead(digit2, 4) | ~ahead(digit, 4))) |
                      (number4 & (ahead(number2, 4) | (ahead(digit2, 2) & ahead(digit, 4))));
  const Lanes lower_behind =
      behind(alpha.now & ~upper.now, alpha_before & ~load(sheet.upper, block - 1), 1);
  store(number.now, sheet.number, block);
  store(behind(alpha.now, alpha_before, 1), sheet.lettered, block);
  store(digit.now & ~behind(digit.now, digit_before, 1) & ~lower_behind & worth, sheet.starts,
        block);
}

MVM_TARGET void find(const char* data, size_t blocks, char before, uint64_t* out) {
  Sheet sheet;
  put_before(before, sheet);
  put(classify(data), kFirst, sheet);
  while (blocks > 0) {
    const size_t count = std::min(blocks, kBatch);
    for (size_t i = 1; i <= count; ++i) put(classify(data + i * kBlockSize), kFirst + i, sheet);
    for (size_t i = 0; i < count; i += kLanes) combine(sheet, kFirst + i);
    sheet.number[kFirst + count] = sheet.separator[kFirst + count] | sheet.digit[kFirst + count];
    add_numbers(data, count, sheet);
    out = std::copy_n(sheet.out + kFirst, count, out);
    turn_over(count, sheet);
    data += count * kBlockSize;
    blocks -= count;
  }
}

#undef MVM_INLINE

}
}
