// Phone numbers. With a country code ("+", or "00" where words say phone) the national part must be
// of a length that the country has; national numbers need a word beside them, or a grouping that is
// used for little else (src/protect/phone_forms.cc).

#include <algorithm>
#include <array>
#include <optional>

#include "checks.h"
#include "context.h"
#include "letters.h"
#include "number.h"

namespace mvm::protect {
namespace {

struct Country {
  uint16_t code;
  uint8_t least;  // digits of the national number
  uint8_t most;
};

// ITU-T E.164 assigned codes, with the lengths of their national plans; sorted.
constexpr Country kCountries[] = {
    {1, 10, 10},  {7, 10, 10},  {20, 8, 10},   {27, 9, 9},   {30, 10, 10}, {31, 9, 9},
    {32, 8, 9},   {33, 9, 9},   {34, 9, 9},    {36, 8, 9},   {39, 6, 12},  {40, 9, 9},
    {41, 9, 9},   {43, 5, 13},  {44, 9, 10},   {45, 8, 8},   {46, 7, 10},  {47, 8, 8},
    {48, 9, 9},   {49, 6, 13},  {51, 8, 9},    {52, 10, 10}, {53, 8, 8},   {54, 10, 11},
    {55, 10, 11}, {56, 9, 9},   {57, 8, 10},   {58, 10, 10}, {60, 8, 10},  {61, 9, 9},
    {62, 7, 12},  {63, 8, 10},  {64, 8, 10},   {65, 8, 8},   {66, 8, 9},   {81, 9, 10},
    {82, 8, 10},  {84, 9, 10},  {86, 10, 11},  {90, 10, 10}, {91, 10, 10}, {92, 9, 10},
    {93, 9, 9},   {94, 9, 9},   {95, 7, 10},   {98, 10, 10}, {211, 9, 9},  {212, 9, 9},
    {213, 8, 9},  {216, 8, 8},  {218, 9, 9},   {220, 7, 7},  {221, 9, 9},  {222, 8, 8},
    {223, 8, 8},  {224, 9, 9},  {225, 10, 10}, {226, 8, 8},  {227, 8, 8},  {228, 8, 8},
    {229, 8, 8},  {230, 7, 8},  {231, 7, 9},   {232, 8, 8},  {233, 9, 9},  {234, 8, 10},
    {235, 8, 8},  {236, 8, 8},  {237, 9, 9},   {238, 7, 7},  {239, 7, 7},  {240, 9, 9},
    {241, 7, 8},  {242, 9, 9},  {243, 9, 9},   {244, 9, 9},  {245, 7, 9},  {248, 7, 7},
    {249, 9, 9},  {250, 9, 9},  {251, 9, 9},   {252, 7, 9},  {253, 8, 8},  {254, 9, 9},
    {255, 9, 9},  {256, 9, 9},  {257, 8, 8},   {258, 8, 9},  {260, 9, 9},  {261, 9, 9},
    {262, 9, 9},  {263, 7, 9},  {264, 8, 9},   {265, 7, 9},  {266, 8, 8},  {267, 7, 8},
    {268, 8, 8},  {269, 7, 7},  {297, 7, 7},   {298, 6, 6},  {299, 6, 6},  {350, 8, 8},
    {351, 9, 9},  {352, 5, 9},  {353, 7, 9},   {354, 7, 9},  {355, 8, 9},  {356, 8, 8},
    {357, 8, 8},  {358, 6, 11}, {359, 7, 9},   {370, 8, 8},  {371, 8, 8},  {372, 7, 8},
    {373, 8, 8},  {374, 8, 8},  {375, 9, 9},   {376, 6, 9},  {377, 8, 9},  {378, 8, 10},
    {380, 9, 9},  {381, 8, 9},  {382, 8, 8},   {383, 8, 8},  {385, 8, 9},  {386, 8, 8},
    {387, 8, 8},  {389, 8, 8},  {420, 9, 9},   {421, 9, 9},  {423, 7, 9},  {501, 7, 7},
    {502, 8, 8},  {503, 8, 8},  {504, 8, 8},   {505, 8, 8},  {506, 8, 8},  {507, 7, 8},
    {509, 8, 8},  {590, 9, 9},  {591, 8, 8},   {592, 7, 7},  {593, 8, 9},  {594, 9, 9},
    {595, 9, 9},  {596, 9, 9},  {597, 6, 7},   {598, 8, 8},  {599, 7, 8},  {673, 7, 7},
    {675, 7, 8},  {679, 7, 7},  {685, 5, 7},   {687, 6, 6},  {689, 6, 8},  {852, 8, 8},
    {853, 8, 8},  {855, 8, 9},  {856, 8, 10},  {880, 8, 10}, {886, 8, 9},  {960, 7, 7},
    {961, 7, 8},  {962, 8, 9},  {963, 8, 9},   {964, 8, 10}, {965, 8, 8},  {966, 8, 9},
    {967, 7, 9},  {968, 8, 8},  {970, 8, 9},   {971, 8, 9},  {972, 8, 9},  {973, 8, 8},
    {974, 8, 8},  {975, 7, 8},  {976, 8, 8},   {977, 8, 10}, {992, 9, 9},  {993, 8, 8},
    {994, 9, 9},  {995, 9, 9},  {996, 9, 9},   {998, 9, 9},
};

const Country* country_of(std::string_view digits) {
  for (size_t length = 1; length <= 3 && length < digits.size(); ++length) {
    const uint16_t code = static_cast<uint16_t>(number(digits.substr(0, length)));
    const auto* found = std::ranges::lower_bound(kCountries, code, {}, &Country::code);
    if (found != std::end(kCountries) && found->code == code) return found;
  }
  return nullptr;
}

bool plausible(std::string_view digits) {
  const Country* country = country_of(digits);
  if (country == nullptr) return false;
  const std::string_view national = digits.substr(country->code < 10    ? 1
                                                  : country->code < 100 ? 2
                                                                        : 3);
  if (national.size() < country->least || national.size() > country->most || all_same(national))
    return false;
  // The North American plan: area and exchange start from 2.
  return country->code != 1 || (national[0] >= '2' && national[3] >= '2');
}

Found international(const Window& window, const Numbers& numbers, size_t first, size_t start) {
  std::array<char, 20> digits{};
  size_t count = 0;
  Found best;
  for (size_t group = first; group < numbers.count; ++group) {
    const Group& now = numbers.groups[group];
    if (count + now.length > 17) break;
    // "+35236450.6" is an amount.
    if (now.length == 1 && (now.separator == '.' || now.separator == '-')) return std::nullopt;
    // "+44 (0)20 …": the trunk's zero is not part of the number.
    const bool trunk = now.separator == '(' && now.length == 1 && numbers.digits[now.digit] == '0';
    for (size_t i = 0; !trunk && i < now.length; ++i)
      digits.at(count++) = numbers.digits[now.digit + i];
    std::string_view all(digits.data(), count);
    if (first == group && start == numbers.groups[first].start) {
      count -= 2;  // "00"
      std::copy_n(digits.begin() + 2, count, digits.begin());
      all = {digits.data(), count};
    }
    if (count < 7 || count > 15 || !plausible(all)) continue;
    const Candidate candidate{window, numbers, first, group, all};
    if (clear_after(candidate, false))
      best = Hit{start, numbers.end_of(group), PiiClass::Phone, "e164"};
  }
  return best;
}

bool like_date(const Numbers& numbers, size_t first, size_t last) {
  if (last - first < 2) return false;
  const size_t year = std::max(numbers.groups[first].length, numbers.groups[first + 2].length);
  return year == 4 && numbers.groups[first].length != 3 && numbers.groups[first + 1].length <= 2 &&
         numbers.groups[first + 1].separator == numbers.groups[first + 2].separator &&
         numbers.groups[first + 1].separator != ' ';
}

// The last of the groups of a number that could be a national one: of those from `first` on the
// most that are 7 to 13 digits.
std::optional<size_t> national(const Window& window, const Numbers& numbers, size_t first) {
  size_t last = first;
  size_t count = numbers.groups[first].length;
  while (last + 1 < numbers.count && count + numbers.groups[last + 1].length <= 13)
    count += numbers.groups[++last].length;
  if (count < 7 || count > 13) return std::nullopt;
  const Candidate candidate{window, numbers, first, last, numbers.digits_of(first, last)};
  if (like_date(numbers, first, last) || all_same(candidate.digits)) return std::nullopt;
  if (!clear_before(candidate, true) || !clear_after(candidate, true)) return std::nullopt;
  return last;
}

// Where a number with a country code begins, its '+' or "(+"; or nowhere.
std::optional<size_t> plus_before(const Window& window, size_t start) {
  if (window.before(start) == '+') return start - 1;
  if (start >= 2 && window.before(start) == '(' && window.before(start - 1) == '+')
    return start - 2;
  return std::nullopt;
}

}

bool may_be_phone(const Window& window, const Numbers& numbers, size_t first) {
  return (first == 0 && plus_before(window, numbers.groups[0].start)) ||
         national(window, numbers, first);
}

Found match_phone(const Window& window, const Numbers& numbers, size_t first) {
  const size_t start = numbers.groups[first].start;
  if (const auto plus = plus_before(window, start); plus && first == 0) {
    const char before = start >= 2 ? window.before(start - 1) : '\0';
    if (*plus == start - 1 && (is(before, kAlnum) || before == '+' || before == '_'))
      return std::nullopt;
    return international(window, numbers, first, *plus);
  }
  const auto last = national(window, numbers, first);
  if (!last) return std::nullopt;
  const Candidate candidate{window, numbers, first, *last, numbers.digits_of(first, *last)};
  if (candidate.digits.starts_with("00")) {
    if (numbers.groups[first].length == 1) return std::nullopt;  // "0.0059": an amount
    if ((context_before(window, start) & kSaysPhone) == 0) return std::nullopt;
    if (Found found = international(window, numbers, first, start)) return found;
  }
  for (size_t group = first; group <= *last; ++group)  // "12.5", "1/2": not how phones are written
    if (numbers.groups[group].length == 1 && group != first &&
        numbers.groups[group].separator != '(')
      return std::nullopt;
  // "353207.547": a number.
  if (*last == first + 1 && numbers.groups[*last].separator == '.' &&
      numbers.groups[first].length > 4 && candidate.digits[0] != '0')
    return std::nullopt;
  const bool parenthesis = window.before(start) == '(';
  const size_t from = start - (parenthesis ? 1 : 0);
  if ((context_before(window, from) & kSaysPhone) == 0) return std::nullopt;
  if (candidate.digits.size() == 13) return std::nullopt;
  return Hit{from, candidate.end(), PiiClass::Phone, "national"};
}

}
