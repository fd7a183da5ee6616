#include "iban.h"

#include <array>

#include "checks.h"
#include "detectors.h"
#include "letters.h"

namespace mvm::protect {
namespace {

struct Country {
  char code[3];
  uint8_t length;
};
// The IBAN registry (SWIFT, release 97).
constexpr Country kCountries[] = {
    {"AD", 24}, {"AE", 23}, {"AL", 28}, {"AT", 20}, {"AZ", 28}, {"BA", 20}, {"BE", 16}, {"BG", 22},
    {"BH", 22}, {"BI", 27}, {"BR", 29}, {"BY", 28}, {"CH", 21}, {"CR", 22}, {"CY", 28}, {"CZ", 24},
    {"DE", 22}, {"DJ", 27}, {"DK", 18}, {"DO", 28}, {"EE", 20}, {"EG", 29}, {"ES", 24}, {"FI", 18},
    {"FK", 18}, {"FO", 18}, {"FR", 27}, {"GB", 22}, {"GE", 22}, {"GI", 23}, {"GL", 18}, {"GR", 27},
    {"GT", 28}, {"HR", 21}, {"HU", 28}, {"IE", 22}, {"IL", 23}, {"IQ", 23}, {"IS", 26}, {"IT", 27},
    {"JO", 30}, {"KW", 30}, {"KZ", 20}, {"LB", 28}, {"LC", 32}, {"LI", 21}, {"LT", 20}, {"LU", 20},
    {"LV", 21}, {"LY", 25}, {"MC", 27}, {"MD", 24}, {"ME", 22}, {"MK", 19}, {"MN", 20}, {"MR", 27},
    {"MT", 31}, {"MU", 30}, {"NI", 28}, {"NL", 18}, {"NO", 15}, {"OM", 23}, {"PK", 24}, {"PL", 28},
    {"PS", 29}, {"PT", 25}, {"QA", 29}, {"RO", 24}, {"RS", 22}, {"RU", 33}, {"SA", 24}, {"SC", 31},
    {"SD", 18}, {"SE", 24}, {"SI", 19}, {"SK", 24}, {"SM", 27}, {"SO", 23}, {"ST", 25}, {"SV", 28},
    {"TL", 23}, {"TN", 24}, {"TR", 26}, {"UA", 29}, {"VA", 22}, {"VG", 24}, {"XK", 20}, {"YE", 30}};

constexpr auto kLengths = [] {
  std::array<uint8_t, 26 * 26> out{};
  for (const Country& country : kCountries)
    out[static_cast<size_t>((country.code[0] - 'A') * 26 + (country.code[1] - 'A'))] =
        country.length;
  return out;
}();

}

size_t iban_length(char first, char second) noexcept {
  if (!is(first, kUpper) || !is(second, kUpper)) return 0;
  return kLengths[static_cast<size_t>((first - 'A') * 26 + (second - 'A'))];
}

bool iban(std::string_view word) noexcept {
  if (word.size() < 15 || word.size() > 34 || iban_length(word[0], word[1]) != word.size())
    return false;
  if (!is(word[2], kDigit) || !is(word[3], kDigit)) return false;
  std::array<char, 34> turned{};
  size_t used = 0;
  for (size_t i = 4; i < word.size() + 4; ++i) {
    const char c = word[i % word.size()];
    if (!is(c, kDigit | kUpper)) return false;
    turned[used++] = c;
  }
  return mod97_is_1({turned.data(), used});
}

// At the first digit of the check digits, with the country before it: groups of four.
Found match_spaced_iban(const Window& window, size_t at) {
  if (at < 2) return std::nullopt;
  const size_t start = at - 2;
  const size_t length = iban_length(window.at(start), window.at(start + 1));
  if (length == 0 || is(window.before(start), kAlnum | kWordMark)) return std::nullopt;
  if (!is(window.at(at + 1), kDigit)) return std::nullopt;
  const char gap = window.at(at + 2);
  if (gap != ' ' && gap != '-') return std::nullopt;
  std::array<char, 34> word{};
  size_t i = start;
  for (size_t used = 0; used < length; ++used) {
    if (used > 0 && used % 4 == 0 && window.at(i++) != gap) return std::nullopt;
    const char c = window.at(i++);
    if (!is(c, kDigit | kUpper)) return std::nullopt;
    word.at(used) = c;
  }
  if (is(window.at(i), kAlnum) || !iban({word.data(), length})) return std::nullopt;
  return Hit{start, i, PiiClass::Iban, ""};
}

}
