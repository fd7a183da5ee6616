#pragma once
#include <string_view>

namespace mvm::protect {

// ISO 13616: of its country's length and with check digits that fit. Capitals, no spaces.
bool iban(std::string_view word) noexcept;
// Of a country's accounts; 0 where the country has no IBAN.
size_t iban_length(char first, char second) noexcept;

}
