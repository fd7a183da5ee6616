#pragma once
// Where a detector may have work, by bit masks over blocks of 64 bytes: the part of the scan that
// touches every byte. Everything else runs only where a bit is set.
//
// A bit is set at: '@' unless a blank or another '@' is beside it; the first of "::" behind four of
// [0-9A-Fa-f:]; the first of five dashes; the first of 16 or more word characters [A-Za-z0-9_-];
// the first of 15 or more of [0-9A-Fa-f:] with a colon near its start; a capital that begins 9 or
// more of [A-Z0-9] with a digit among them; the last digit before a byte beyond ASCII; and the
// first digit of a number that could be something: digits with separators [ -./()] between them,
// not behind a small letter, 7 or more, or fewer where their groups or what is beside them would
// make something of them (matters() in trigger_sheet.h).

#include <cstddef>
#include <cstdint>

namespace mvm::protect {

// Writes one mask a block. `data` must be readable for 64 bytes past the last block, and what lies
// past the text must be zero; `before` is the byte before data[0].
void find_triggers(const char* data, size_t blocks, char before, uint64_t* out) noexcept;

// The same with no vectors, with those of AVX2, or with those of AVX-512, whichever the processor
// has. False: it has them not. For the tests.
enum class Vectors : uint8_t { None, Avx2, Avx512 };
bool find_triggers_with(Vectors vectors, const char* data, size_t blocks, char before,
                        uint64_t* out) noexcept;

}
