#pragma once
// What single words say of the value behind them: bits of Context (context.h), 0 for most.

#include <cstdint>
#include <string_view>

namespace mvm::protect {

// Of a word in any case of letters.
uint32_t meaning(std::string_view word);
// Of a label with parts: as a whole, else of its last part that means something ("home_phone",
// "billingPhone", "card-number").
uint32_t meaning_of_label(std::string_view word);
// Of a text that says that much by its words in ASCII: with those of other letters and scripts.
uint32_t says_in(std::string_view text, uint32_t says);

}
