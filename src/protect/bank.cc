// Payment cards and US bank routing numbers.

#include "checks.h"
#include "context.h"
#include "shapes.h"

namespace mvm::protect {
namespace {

bool in(unsigned value, unsigned from, unsigned to) { return value >= from && value <= to; }

// Issuer ranges with the lengths they use.
bool issued(std::string_view d) {
  const unsigned two = part(d, 0, 2);
  const unsigned three = part(d, 0, 3);
  const unsigned four = part(d, 0, 4);
  const unsigned six = part(d, 0, 6);
  switch (d.size()) {
    case 13:
      return d[0] == '4';
    case 14:
      return two == 36 || in(two, 38, 39) || in(three, 300, 305);  // Diners Club
    case 15:
      return two == 34 || two == 37 || four == 2131 || four == 1800;  // American Express, JCB
    case 16:
      return d[0] == '4' || in(two, 51, 55) || in(four, 2221, 2720) ||        // Visa, Mastercard
             four == 6011 || in(three, 644, 649) || two == 65 ||              // Discover
             in(six, 622126, 622925) || two == 62 || in(four, 3528, 3589) ||  // UnionPay, JCB
             in(four, 2200, 2204) ||                                          // Mir
             in(six, 508500, 508999) || two == 60 || in(two, 56, 58) || two == 50 || four == 6304 ||
             four == 6759 || four == 6761 || four == 6763 ||  // Maestro, RuPay
             in(two, 36, 36);
    case 17:
    case 18:
      return two == 62 || two == 50 || in(two, 56, 58);
    case 19:
      return two == 62 || d[0] == '4' || four == 6011 || two == 65 || two == 50 ||
             in(two, 56, 58) || four == 6304;
    default:
      return false;
  }
}

bool card(std::string_view d) { return issued(d) && luhn(d) && !all_same(d); }

bool routing(std::string_view d) {
  const unsigned two = part(d, 0, 2);
  if (two > 12 && !in(two, 21, 32) && !in(two, 61, 72) && two != 80) return false;
  static constexpr int8_t kWeights[] = {3, 7, 1, 3, 7, 1, 3, 7, 1};
  return !all_same(d) && weighted_sum(d, kWeights) % 10 == 0;
}

constexpr Shape kShapes[] = {
    {"16", PiiClass::Card, "", card, 0, true},
    {"4~4~4~4", PiiClass::Card, "", card, 0, false},
    {"15", PiiClass::Card, "", card, 0, true},
    {"4~6~5", PiiClass::Card, "", card, 0, false},
    {"14", PiiClass::Card, "", card, kSaysCard, true},
    {"4~6~4", PiiClass::Card, "", card, 0, false},
    {"4~4~4~2", PiiClass::Card, "", card, 0, false},
    {"13", PiiClass::Card, "", card, kSaysCard, true},
    {"4~4~4~1", PiiClass::Card, "", card, kSaysCard, false},
    {"19", PiiClass::Card, "", card, 0, true},
    {"4~4~4~4~3", PiiClass::Card, "", card, 0, false},
    {"17", PiiClass::Card, "", card, kSaysCard, true},
    {"18", PiiClass::Card, "", card, kSaysCard, true},
    {"9", PiiClass::BankRouting, "us", routing, kSaysRouting, false},
    {"4-4-1", PiiClass::BankRouting, "us", routing, kSaysRouting, false},
};

}

std::span<const Shape> bank_shapes() { return kShapes; }

}
