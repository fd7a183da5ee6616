#pragma once
// What find_triggers() knows of a text: for each kind of byte one bit a byte, a word of 64 bits a
// block, for a batch of blocks with the one before them and the one after.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "letters.h"

namespace mvm::protect {

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

struct NibbleRows {
  alignas(16) std::array<uint8_t, 16> low{};
  alignas(16) std::array<uint8_t, 16> high{};
};
inline constexpr NibbleRows kRows = [] {
  NibbleRows rows;
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

static_assert(std::endian::native == std::endian::little);
inline constexpr uint16_t kYear19 = '1' | ('9' << 8);  // two bytes of a text as a number
inline constexpr uint16_t kYear20 = '2' | ('0' << 8);

inline constexpr size_t kBlockSize = 64;
inline constexpr size_t kBatch = 64;  // blocks; what is written is read when it is in the cache
inline constexpr size_t kFirst = 8;   // index of the batch's first block

// The bytes of a block by their kinds, a bit each.
struct Block {
  uint64_t digit = 0;
  uint64_t alpha = 0;
  uint64_t upper = 0;
  uint64_t word = 0;       // alpha, digit, '_', '-'
  uint64_t address = 0;    // hexadecimal digits and ':'
  uint64_t separator = 0;  // of digits: space ( ) - . /
  uint64_t at = 0;         // '@'
  uint64_t blank = 0;      // space, control characters; not NUL, which is what lies past the text
  uint64_t high = 0;       // beyond ASCII
};

inline void classify_byte(char c, size_t index, Block& out) {
  const auto mark = [index](uint64_t& mask, bool is_one) { mask |= uint64_t{is_one} << index; };
  mark(out.digit, is(c, kDigit));
  mark(out.alpha, is(c, kAlpha));
  mark(out.upper, is(c, kUpper));
  mark(out.word, is(c, kAlnum | kWordMark));
  mark(out.address, is_hex(c) || c == ':');
  mark(out.separator, c == ' ' || c == '(' || c == ')' || c == '-' || c == '.' || c == '/');
  mark(out.at, c == '@');
  mark(out.blank, c >= 1 && c <= ' ');
  mark(out.high, is(c, kHigh));
}

// The same of many blocks. Only what was put() is read, or what is computed of other words not
// used.
using Marks = uint64_t[kFirst + kBatch + 8];
struct Sheet {
  Marks digit;
  Marks alpha;
  Marks upper;
  Marks word;
  Marks address;
  Marks separator;
  Marks at;
  Marks blank;
  Marks high;

  // Computed from those.
  Marks number;    // digits and their separators
  Marks lettered;  // behind a letter
  Marks starts;    // of numbers that are worth a look
  Marks out;
};

__attribute__((always_inline)) inline void put(const Block& block, size_t index, Sheet& sheet) {
  sheet.digit[index] = block.digit;
  sheet.alpha[index] = block.alpha;
  sheet.upper[index] = block.upper;
  sheet.word[index] = block.word;
  sheet.address[index] = block.address;
  sheet.separator[index] = block.separator;
  sheet.at[index] = block.at;
  sheet.blank[index] = block.blank;
  sheet.high[index] = block.high;
}

// Before the first block: of the byte before it.
inline void put_before(char before, Sheet& sheet) {
  Block block;
  classify_byte(before, kBlockSize - 1, block);
  put(block, kFirst - 1, sheet);
}

// The last block of a batch is the one before the next batch, and that after it begins that.
inline void turn_over(size_t blocks, Sheet& sheet) {
  for (Marks* marks : {&sheet.digit, &sheet.alpha, &sheet.upper, &sheet.word, &sheet.address,
                       &sheet.separator, &sheet.at, &sheet.blank, &sheet.high}) {
    (*marks)[kFirst - 1] = (*marks)[kFirst + blocks - 1];
    (*marks)[kFirst] = (*marks)[kFirst + blocks];
  }
}

// Whether the number could be something, of which most in a text could not. `digits` and `number`
// are its bytes from its first digit on, as far as 64; `lettered` whether a letter stands before
// it. No jumps here: the processor would guess half of them wrong.
__attribute__((always_inline)) inline uint64_t matters(uint64_t digits, uint64_t number,
                                                       const char* text, uint64_t lettered) {
  digits &= number & ~(number + 1);  // those before the first byte that is of no number
  const int count = std::popcount(digits);
  const uint64_t later = digits & (digits + 1);                     // of the second group and on
  const uint64_t third = later & (later + (later & (~later + 1)));  // of the third
  const char behind = text[std::countr_one(digits)];                // the first group
  const char last = text[std::countr_one(number)];                  // the number
  // A space beyond ASCII may continue the number.
  const bool open = is(last, kHigh);
  // Four or five digits matter in four groups (an address), in three with two in the last (a date),
  // or with three behind a separator (a coordinate, a year), and as a year alone.
  uint16_t year = 0;
  std::memcpy(&year, text, 2);
  const bool four = (std::popcount(third) >= 2) | ((later & (later >> 1) & (later >> 2)) != 0) |
                    ((digits == 0xf) & ((year == kYear19) | (year == kYear20))) |
                    ((third != 0) & open);
  // Six in one group are an identity number only with a letter, or as "131052+308T".
  const bool six = (later != 0) | (lettered != 0) | (behind == '+') | is(behind, kAlpha) | open;
  return static_cast<uint64_t>((count >= 7) | ((count == 6) & six) | ((count >= 4) & four));
}

// Adds those of the numbers' starts that matter to what is to be looked at.
__attribute__((always_inline)) inline void add_numbers(const char* data, size_t blocks,
                                                       Sheet& sheet) {
  // First a list, so that how many a block has is no jump either.
  constexpr size_t kAtOnce = 4;
  uint16_t starts[kBatch * kBlockSize / 2 + kAtOnce];
  uint16_t* end = starts;
  for (size_t block = 0; block < blocks; ++block) {
    uint64_t mask = sheet.starts[kFirst + block];
    uint16_t* to = end;
    end += std::popcount(mask);
    do {
      for (size_t i = 0; i < kAtOnce; ++i, mask &= mask - 1)
        *to++ =
            static_cast<uint16_t>(block * kBlockSize + static_cast<size_t>(std::countr_zero(mask)));
    } while (to < end);
  }
  for (const uint16_t* start = starts; start < end; ++start) {
    const size_t block = kFirst + *start / kBlockSize;
    const size_t at = *start % kBlockSize;
    const auto from = [block, at](const Marks& marks) {
      return (marks[block] >> at) | (marks[block + 1] << 1 << (kBlockSize - 1 - at));
    };
    const uint64_t lettered = sheet.lettered[block] >> at & 1;
    sheet.out[block] |= matters(from(sheet.digit), from(sheet.number), data + *start, lettered)
                        << at;
  }
}

}
