// National identity numbers of digits alone: America, Asia, Africa, Australia.

#include "checks.h"
#include "context.h"
#include "shapes.h"

namespace mvm::protect {
namespace {

int digit(std::string_view d, size_t at) { return d[at] - '0'; }

// Brazil: two check digits, each 11 minus a sum modulo 11, and 0 for 10 and 11.
bool brazilian(std::string_view d, std::span<const int8_t> second) {
  const auto check = [&](size_t at, std::span<const int8_t> weights) {
    const int rest = weighted_sum(d.substr(0, at), weights) % 11;
    return digit(d, at) == (rest < 2 ? 0 : 11 - rest);
  };
  return !all_same(d) && check(d.size() - 2, second.subspan(1)) && check(d.size() - 1, second);
}
bool cpf(std::string_view d) {
  static constexpr int8_t kWeights[] = {11, 10, 9, 8, 7, 6, 5, 4, 3, 2};
  return brazilian(d, kWeights);
}
bool cnpj(std::string_view d) {
  static constexpr int8_t kWeights[] = {6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2};
  return brazilian(d, kWeights);
}

bool canadian(std::string_view d) { return d[0] != '0' && d[0] != '8' && luhn(d) && !all_same(d); }

bool aadhaar(std::string_view d) { return d[0] >= '2' && verhoeff(d) && !all_same(d); }

bool chinese(std::string_view d) {  // 17 digits and a check digit; with X see words.cc
  static constexpr int8_t kWeights[] = {7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2, 1};
  const unsigned year = part(d, 6, 4);
  return d[0] >= '1' && d[0] <= '8' && year >= 1900 && year < 2100 &&
         valid_date(year, part(d, 10, 2), part(d, 12, 2)) && weighted_sum(d, kWeights) % 11 == 1;
}

bool korean(std::string_view d) {
  static constexpr int8_t kWeights[] = {2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5};
  return valid_date(2000 + part(d, 0, 2), part(d, 2, 2), part(d, 4, 2)) && d[6] != '0' &&
         d[6] != '9' && (11 - weighted_sum(d, kWeights) % 11) % 10 == digit(d, 12);
}

bool japanese(std::string_view d) {
  static constexpr int8_t kWeights[] = {6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2};
  const int rest = weighted_sum(d, kWeights) % 11;
  return !all_same(d) && (rest <= 1 ? 0 : 11 - rest) == digit(d, 11);
}

bool australian_tax(std::string_view d) {
  static constexpr int8_t kWeights[] = {1, 4, 3, 7, 5, 8, 6, 9, 10};
  return !all_same(d) && weighted_sum(d, kWeights) % 11 == 0;
}

bool south_african(std::string_view d) {
  return valid_date(2000 + part(d, 0, 2), part(d, 2, 2), part(d, 4, 2)) && d[10] <= '2' && luhn(d);
}

bool turkish(std::string_view d) {
  if (d[0] == '0' || all_same(d)) return false;
  const int odd = digit(d, 0) + digit(d, 2) + digit(d, 4) + digit(d, 6) + digit(d, 8);
  const int even = digit(d, 1) + digit(d, 3) + digit(d, 5) + digit(d, 7);
  return ((odd * 7 - even) % 10 + 10) % 10 == digit(d, 9) &&
         (odd + even + digit(d, 9)) % 10 == digit(d, 10);
}

bool argentine(std::string_view d) {
  static constexpr int8_t kWeights[] = {5, 4, 3, 2, 7, 6, 5, 4, 3, 2};
  const unsigned kind = part(d, 0, 2);
  const bool known =
      kind == 20 || (kind >= 23 && kind <= 27) || kind == 30 || kind == 33 || kind == 34;
  const int check = (11 - weighted_sum(d, kWeights) % 11) % 11;
  return known && (check == 10 ? 9 : check) == digit(d, 10);
}

bool israeli(std::string_view d) { return luhn(d) && !all_same(d); }

bool thai(std::string_view d) {
  static constexpr int8_t kWeights[] = {13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2};
  return d[0] >= '1' && d[0] <= '8' && (11 - weighted_sum(d, kWeights) % 11) % 10 == digit(d, 12);
}

bool chilean(std::string_view d) {  // with check digit K see words.cc
  int sum = 0;
  int weight = 2;
  for (size_t i = d.size() - 1; i-- > 0; weight = weight == 7 ? 2 : weight + 1)
    sum += digit(d, i) * weight;
  return (11 - sum % 11) % 11 == digit(d, d.size() - 1);
}

constexpr auto kId = PiiClass::NationalId;
constexpr Shape kShapes[] = {
    {"3.3.3-2", kId, "br", cpf, 0, false},
    {"11", kId, "br", cpf, kSaysNational, false},
    {"2.3.3/4-2", kId, "br", cnpj, 0, false},
    {"14", kId, "br", cnpj, kSaysNational, false},
    {"9", kId, "ca", canadian, kSaysNational | kSaysSsn, false},
    {"3-3-3", kId, "ca", canadian, 0, true},
    {"3 3 3", kId, "ca", canadian, kSaysNational | kSaysSsn, false},
    {"12", kId, "in", aadhaar, kSaysNational, false},
    {"4 4 4", kId, "in", aadhaar, kSaysNational, true},
    {"4-4-4", kId, "in", aadhaar, kSaysNational, true},
    {"18", kId, "cn", chinese, 0, false},
    {"6-7", kId, "kr", korean, 0, true},
    {"13", kId, "kr", korean, kSaysNational, false},
    {"12", kId, "jp", japanese, kSaysNational, false},
    {"4~4~4", kId, "jp", japanese, kSaysNational, false},
    {"9", kId, "au", australian_tax, kSaysNational, false},
    {"3 3 3", kId, "au", australian_tax, kSaysNational, false},
    {"13", kId, "za", south_african, kSaysNational, true},
    {"11", kId, "tr", turkish, kSaysNational, false},
    {"2-8-1", kId, "ar", argentine, 0, false},
    {"11", kId, "ar", argentine, kSaysNational, false},
    {"9", kId, "il", israeli, kSaysNational, false},
    {"1-4-5-2-1", kId, "th", thai, 0, false},
    {"1 4 5 2 1", kId, "th", thai, 0, false},
    {"13", kId, "th", thai, kSaysNational, false},
    {"2.3.3-1", kId, "cl", chilean, 0, false},
    {"1.3.3-1", kId, "cl", chilean, 0, false},
    {"8-1", kId, "cl", chilean, kSaysNational, false},
    {"7-1", kId, "cl", chilean, kSaysNational, false},
};

}

std::span<const Shape> world_shapes() { return kShapes; }

}
