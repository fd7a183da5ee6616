// Identity numbers that mix letters and digits, as one word. They are told apart by the lengths of
// their runs ("2L6D1L"), and then checked.

#include <algorithm>
#include <array>
#include <string>

#include "checks.h"
#include "context.h"
#include "detectors.h"
#include "iban.h"
#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kShortest = 7;
constexpr size_t kLongest = 34;

unsigned mod_letter(std::string_view digits, unsigned modulus) {
  return static_cast<unsigned>(number(digits) % modulus);
}

constexpr std::string_view kSpanishLetters = "TRWAGMYFPDXBNJZSQVHLCKE";

bool spanish_dni(std::string_view w) {
  return kSpanishLetters[mod_letter(w.substr(0, 8), 23)] == w[8];
}
bool spanish_nie(std::string_view w) {
  if (w[0] < 'X' || w[0] > 'Z') return false;
  const std::string digits =
      std::string(1, static_cast<char>('0' + (w[0] - 'X'))) + std::string(w.substr(1, 7));
  return kSpanishLetters[mod_letter(digits, 23)] == w[8];
}

bool singapore(std::string_view w) {
  static constexpr int8_t kWeights[] = {2, 7, 6, 5, 4, 3, 2};
  int sum = weighted_sum(w.substr(1, 7), kWeights);
  if (w[0] == 'T' || w[0] == 'G') sum += 4;
  if (w[0] == 'S' || w[0] == 'T')
    return std::string_view("JZIHGFEDCBA")[static_cast<size_t>(sum % 11)] == w[8];
  if (w[0] == 'F' || w[0] == 'G')
    return std::string_view("XWUTRQPNMLK")[static_cast<size_t>(sum % 11)] == w[8];
  return false;
}

bool nino(std::string_view w) {
  constexpr std::string_view kNever = "DFIQUV";
  if (kNever.find(w[0]) != std::string_view::npos || kNever.find(w[1]) != std::string_view::npos ||
      w[1] == 'O')
    return false;
  for (const std::string_view pair : {"BG", "GB", "NK", "KN", "TN", "NT", "ZZ"})
    if (w.substr(0, 2) == pair) return false;
  return w[8] >= 'A' && w[8] <= 'D';
}

bool indian_pan(std::string_view w) {
  return std::string_view("PCHFATBLJG").find(w[3]) != std::string_view::npos &&
         w.substr(5, 4) != "0000";
}

bool irish(std::string_view w) {
  static constexpr int8_t kWeights[] = {8, 7, 6, 5, 4, 3, 2};
  int sum = weighted_sum(w.substr(0, 7), kWeights);
  if (w.size() == 9 && w[8] != 'W') sum += 9 * (w[8] - 'A' + 1);
  return std::string_view("WABCDEFGHIJKLMNOPQRSTUV")[static_cast<size_t>(sum % 23)] == w[7];
}

bool finnish(std::string_view digits, char check) {
  return valid_date(2000 + part(digits, 4, 2), part(digits, 2, 2), part(digits, 0, 2)) &&
         std::string_view("0123456789ABCDEFHJKLMNPRSTUVWXY")[mod_letter(digits, 31)] == check;
}
bool finnish_word(std::string_view w) {
  return std::string_view("ABCDEFUVWXY").find(w[6]) != std::string_view::npos &&
         finnish(std::string(w.substr(0, 6)) + std::string(w.substr(7, 3)), w[10]);
}

bool italian(std::string_view w) {
  static constexpr int8_t kOdd[] = {1,  0,  5, 7, 9, 13, 15, 17, 19, 21, 2,  4,  18,
                                    20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23};
  if (std::string_view("ABCDEHLMPRST").find(w[8]) == std::string_view::npos) return false;
  const unsigned day = part(w, 9, 2) % 40;
  if (day < 1 || day > 31) return false;
  int sum = 0;
  for (size_t i = 0; i < 15; ++i) {
    const size_t value = static_cast<size_t>(is(w[i], kDigit) ? w[i] - '0' : w[i] - 'A');
    sum += i % 2 == 0 ? kOdd[value] : static_cast<int>(value);
  }
  return sum % 26 == w[15] - 'A';
}

bool chinese(std::string_view w) {
  static constexpr int8_t kWeights[] = {7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2};
  return w[17] == 'X' && valid_date(part(w, 6, 4), part(w, 10, 2), part(w, 12, 2)) &&
         (weighted_sum(w, kWeights) + 10) % 11 == 1;
}

bool taiwanese(std::string_view w) {
  constexpr std::string_view kOrder = "ABCDEFGHJKLMNPQRSTUVXYWZIO";
  const int code = static_cast<int>(kOrder.find(w[0])) + 10;
  static constexpr int8_t kWeights[] = {8, 7, 6, 5, 4, 3, 2, 1, 1};
  return (w[1] == '1' || w[1] == '2') &&
         (code / 10 + code % 10 * 9 + weighted_sum(w.substr(1), kWeights)) % 10 == 0;
}

bool mexican(std::string_view w) {
  if (w[10] != 'H' && w[10] != 'M' && w[10] != 'X') return false;
  if (!valid_date(2000 + part(w, 4, 2), part(w, 6, 2), part(w, 8, 2)) || !is(w[17], kDigit))
    return false;
  int sum = 0;
  for (size_t i = 0; i < 17; ++i) {
    int value = is(w[i], kDigit) ? w[i] - '0' : w[i] - 'A' + 10;
    if (w[i] > 'N') ++value;  // Ñ stands between
    sum += value * static_cast<int>(18 - i);
  }
  return (10 - sum % 10) % 10 == w[17] - '0';
}

struct Row {
  std::string_view form;  // runs of letters and digits
  PiiClass kind;
  std::string_view detail;
  bool (*valid)(std::string_view word);
  uint32_t needs;
};

constexpr auto kId = PiiClass::NationalId;
constexpr Row kWords[] = {
    {"2L6D1L", PiiClass::UkNino, "gb", nino, 0},
    {"8D1L", kId, "es", spanish_dni, 0},
    {"1L7D1L", kId, "es", spanish_nie, 0},
    {"1L7D1L", kId, "sg", singapore, 0},
    {"5L4D1L", kId, "in", indian_pan, 0},
    {"7D1L", kId, "ie", irish, kSaysNational},
    {"7D2L", kId, "ie", irish, kSaysNational},
    {"6D1L3D1L", kId, "fi", finnish_word, 0},
    {"6D1L4D", kId, "fi", finnish_word, 0},
    {"6L2D1L2D1L3D1L", kId, "it", italian, 0},
    {"17D1L", kId, "cn", chinese, 0},
    {"1L9D", kId, "tw", taiwanese, kSaysNational},
    {"4L6D6L2D", kId, "mx", mexican, 0},
    {"4L6D7L1D", kId, "mx", mexican, 0},
};

// The run lengths of a word as text.
std::string_view form_of(std::string_view word, std::array<char, 40>& out) {
  size_t used = 0;
  for (size_t i = 0; i < word.size() && used + 3 < out.size();) {
    const bool digits = is(word[i], kDigit);
    size_t end = i;
    while (end < word.size() && is(word[end], kDigit) == digits) ++end;
    const size_t length = end - i;
    if (length >= 10) out.at(used++) = static_cast<char>('0' + length / 10);
    out.at(used++) = static_cast<char>('0' + length % 10);
    out.at(used++) = digits ? 'D' : 'L';
    i = end;
  }
  return {out.data(), used};
}

// The check digit is required, and where only a tenth of random words would fail the grammar the
// last four must be digits as well, as serial numbers of cars are.
bool vin(std::string_view w) {
  static constexpr int8_t kWeights[] = {8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2};
  static constexpr int8_t kValues[] = {1, 2,  3, 4,  5, 6, 7, 8, -1, 1, 2, 3, 4,
                                       5, -1, 7, -1, 9, 2, 3, 4, 5,  6, 7, 8, 9};
  int sum = 0;
  for (size_t i = 0; i < 17; ++i) {
    const int value = is(w[i], kDigit) ? w[i] - '0' : kValues[w[i] - 'A'];
    if (value < 0) return false;
    sum += value * kWeights[i];
  }
  const int check = sum % 11;
  if (w[8] != (check == 10 ? 'X' : static_cast<char>('0' + check))) return false;
  return std::ranges::all_of(w.substr(13), [](char c) { return is(c, kDigit); });
}

bool british_licence(std::string_view w) {  // surname, birth date within digits, initials
  if (w.size() != 16 && w.size() != 18) return false;
  for (size_t i = 0; i < 5; ++i)
    if (!is(w[i], kUpper) && w[i] != '9') return false;
  for (size_t i = 5; i < 11; ++i)
    if (!is(w[i], kDigit)) return false;
  const unsigned month = part(w, 6, 2) % 50;
  const unsigned day = part(w, 8, 2);
  return is(w[0], kUpper) && month >= 1 && month <= 12 && day >= 1 && day <= 31 &&
         !is(w[14], kDigit) && !is(w[15], kDigit);
}

Found paper(const Window& window, size_t start, size_t end, uint32_t says) {
  const std::string_view word = window.text(start, end);
  const auto digits = std::ranges::count_if(word, [](char c) { return is(c, kDigit); });
  if (digits < 5 || word.size() > 16) return std::nullopt;
  if ((says & kSaysPassport) != 0 && word.size() >= 7 && word.size() <= 9)
    return Hit{start, end, PiiClass::Passport, ""};
  if ((says & kSaysLicence) != 0 && word.size() >= 7)
    return Hit{start, end, PiiClass::DrivingLicence, ""};
  return std::nullopt;
}

}

Found match_word(const Window& window, size_t at, const ClassSet& classes) {
  size_t start = at;
  while (start > 0 && at - start <= 18 && is(window.before(start), kAlnum)) --start;
  if (at - start > 18) return std::nullopt;
  size_t end = at;
  size_t lowers = 0;
  while (end - start <= kLongest && is(window.at(end), kAlnum)) ++end;
  if (end - start < kShortest || end - start > kLongest) return std::nullopt;
  const std::string_view word = window.text(start, end);
  for (const char c : word) lowers += is(c, kLower) ? 1 : 0;
  if (lowers != 0) return std::nullopt;  // all of these are written in capitals
  const char before = window.before(start);
  const char after = window.at(end);
  if (std::string_view("_-./+@#$%&").find(before) != std::string_view::npos && before != '\0')
    return std::nullopt;
  if (after == '_' || after == '@' || after == '/' || after == '=' || after == '+' ||
      ((after == '-' || after == '.') && is(window.at(end + 1), kAlnum))) {
    return std::nullopt;
  }
  if (classes.has(PiiClass::Iban) && iban(word)) return Hit{start, end, PiiClass::Iban, {}};
  uint32_t says = 0;
  bool asked = false;
  const auto context = [&] {
    if (!asked) says = context_before(window, start);
    asked = true;
    return says;
  };
  std::array<char, 40> buffer{};
  const std::string_view form = form_of(word, buffer);
  for (const Row& row : kWords) {
    if (row.form != form || !classes.has(row.kind) || !row.valid(word)) continue;
    if ((context() & kSaysOther) != 0 || (row.needs != 0 && (context() & row.needs) == 0)) continue;
    return Hit{start, end, row.kind, row.detail};
  }
  if (word.size() == 17 && vin(word) && (context() & kSaysOther) == 0)
    return Hit{start, end, PiiClass::Vin, ""};
  if (british_licence(word)) return Hit{start, end, PiiClass::DrivingLicence, "gb"};
  if ((context() & (kSaysPassport | kSaysLicence)) == 0) return std::nullopt;
  return paper(window, start, end, context());
}

Found match_spaced_id(const Window& window, size_t at) {
  // "AB 12 34 56 C"
  const auto digit = [&](size_t i) { return is(window.at(i), kDigit); };
  if (at >= 3 && window.before(at) == ' ' && is(window.before(at - 1), kUpper) &&
      is(window.before(at - 2), kUpper) && !is(window.before(at - 3), kAlnum)) {
    std::array<char, 9> word = {window.at(at - 3), window.at(at - 2)};
    bool fits = true;
    for (size_t i = 0; fits && i < 3; ++i) {
      const size_t pair = at + i * 3;
      fits = digit(pair) && digit(pair + 1) && window.at(pair + 2) == ' ';
      word.at(2 + i * 2) = window.at(pair);
      word.at(3 + i * 2) = window.at(pair + 1);
    }
    word[8] = window.at(at + 9);
    if (fits && is(word[8], kUpper) && !is(window.at(at + 10), kAlnum) &&
        nino({word.data(), word.size()}))
      return Hit{at - 3, at + 10, PiiClass::UkNino, "gb"};
  }
  // Groups and then a check letter: "131052-308T", "12345678-Z", "12.345.678-K".
  if (is(window.before(at), kAlnum) || window.before(at) == '.' || window.before(at) == '-' ||
      window.before(at) == '/')
    return std::nullopt;
  std::array<char, 12> digits{};
  size_t count = 0;
  size_t i = at;
  const auto take = [&](size_t most) {
    for (size_t k = 0; k < most && digit(i) && count < digits.size(); ++k)
      digits.at(count++) = window.at(i++);
  };
  take(9);
  const std::string_view all(digits.data(), digits.size());
  const auto ends = [&](size_t end) { return !is(window.at(end), kAlnum | kWordMark); };
  if (count == 8 && window.at(i) == '-' && is(window.at(i + 1), kUpper) && ends(i + 2) &&
      kSpanishLetters[mod_letter(all.substr(0, 8), 23)] == window.at(i + 1)) {
    return Hit{at, i + 2, kId, "es"};
  }
  if (count == 6 && (window.at(i) == '-' || window.at(i) == '+') && digit(i + 1)) {
    ++i;
    take(3);
    const char check = window.at(i);
    if (count == 9 && is(check, kAlnum) && ends(i + 1) && finnish(all.substr(0, 9), check))
      return Hit{at, i + 1, kId, "fi"};
    return std::nullopt;
  }
  if ((count == 1 || count == 2) && window.at(i) == '.') {
    for (int group = 0; group < 2; ++group) {
      if (window.at(i) != '.') return std::nullopt;
      ++i;
      const size_t from = count;
      take(3);
      if (count != from + 3) return std::nullopt;
    }
    if (window.at(i) != '-' || upper(window.at(i + 1)) != 'K' || !ends(i + 2)) return std::nullopt;
    int sum = 0;
    int weight = 2;
    for (size_t k = count; k-- > 0; weight = weight == 7 ? 2 : weight + 1)
      sum += (digits.at(k) - '0') * weight;
    if (sum % 11 == 1) return Hit{at, i + 2, kId, "cl"};
  }
  return std::nullopt;
}

}
