// National identity numbers of digits alone: Europe. Each check is the issuing authority's;
// docs/pii.md names them. Plain digits need a word beside them, since a check digit alone lets
// every tenth or eleventh order number through.

#include "checks.h"
#include "context.h"
#include "shapes.h"

namespace mvm::protect {
namespace {

int digit(std::string_view d, size_t at) { return d[at] - '0'; }
bool date_of(std::string_view d, size_t year, size_t month, size_t day) {
  return valid_date(2000 + part(d, year, 2), part(d, month, 2),
                    part(d, day, 2));  // leap days of 1900 too
}

bool french_nir(std::string_view d) {  // sex, year, month, place, order, key
  const unsigned month = part(d, 3, 2);
  const bool months = (month >= 1 && month <= 12) || (month >= 20 && month <= 42) || month >= 50;
  return (d[0] == '1' || d[0] == '2') && months &&
         97 - number(d.substr(0, 13)) % 97 == number(d.substr(13));
}

bool german_tax(std::string_view d) {
  if (d[0] == '0' || !mod11_10(d)) return false;
  // Of the first ten digits one stands twice or three times, the rest at most once.
  int counts[10] = {};
  for (size_t i = 0; i < 10; ++i) ++counts[digit(d, i)];
  int repeated = 0;
  for (const int count : counts) {
    if (count > 3) return false;
    repeated += count > 1 ? 1 : 0;
  }
  return repeated == 1;
}

bool dutch_bsn(std::string_view d) {
  static constexpr int8_t kWeights[] = {9, 8, 7, 6, 5, 4, 3, 2, -1};
  return !all_same(d) && weighted_sum(d, kWeights) % 11 == 0;
}

bool belgian(std::string_view d) {
  const unsigned month = part(d, 2, 2) % 20;
  if (month > 12 || part(d, 4, 2) > 31 || part(d, 6, 3) == 0) return false;
  const uint64_t base = number(d.substr(0, 9));
  const uint64_t check = number(d.substr(9));
  return 97 - base % 97 == check || 97 - (2000000000 + base) % 97 == check;
}

bool pesel(std::string_view d) {
  static constexpr int8_t kWeights[] = {1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1};
  const unsigned month = part(d, 2, 2) % 20;
  return valid_date(2000 + part(d, 0, 2), month, part(d, 4, 2)) &&
         weighted_sum(d, kWeights) % 10 == 0;
}

bool swedish(std::string_view d) {
  if (d.size() == 12) {
    const unsigned century = part(d, 0, 2);
    if (century < 18 || century > 20) return false;
    d.remove_prefix(2);
  }
  const unsigned day = part(d, 4, 2) > 60 ? part(d, 4, 2) - 60 : part(d, 4, 2);
  return valid_date(2000 + part(d, 0, 2), part(d, 2, 2), day) && luhn(d);
}

bool norwegian(std::string_view d) {
  static constexpr int8_t kFirst[] = {3, 7, 6, 1, 8, 9, 4, 5, 2, 1};
  static constexpr int8_t kSecond[] = {5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1};
  const unsigned day = part(d, 0, 2) > 40 ? part(d, 0, 2) - 40 : part(d, 0, 2);
  return valid_date(2000 + part(d, 4, 2), part(d, 2, 2), day) &&
         weighted_sum(d, kFirst) % 11 == 0 && weighted_sum(d, kSecond) % 11 == 0;
}

bool czech(std::string_view d) {
  unsigned month = part(d, 2, 2) % 50;
  if (month > 20) month -= 20;
  return valid_date(2000 + part(d, 0, 2), month, part(d, 4, 2)) &&
         (number(d) % 11 == 0 || (number(d.substr(0, 9)) % 11 == 10 && d[9] == '0'));
}

bool portuguese(std::string_view d) {
  static constexpr int8_t kWeights[] = {9, 8, 7, 6, 5, 4, 3, 2};
  const int check = 11 - weighted_sum(d, kWeights) % 11;
  return d[0] != '0' && !all_same(d) && (check >= 10 ? 0 : check) == digit(d, 8);
}

bool romanian(std::string_view d) {
  static constexpr int8_t kWeights[] = {2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9};
  const int check = weighted_sum(d, kWeights) % 11;
  return d[0] != '0' && date_of(d, 1, 3, 5) && (check == 10 ? 1 : check) == digit(d, 12);
}

bool bulgarian(std::string_view d) {
  static constexpr int8_t kWeights[] = {2, 4, 8, 5, 10, 9, 7, 3, 6};
  return valid_date(2000 + part(d, 0, 2), part(d, 2, 2) % 20, part(d, 4, 2)) &&
         weighted_sum(d, kWeights) % 11 % 10 == digit(d, 9);
}

bool swiss(std::string_view d) {
  static constexpr int8_t kWeights[] = {1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1};
  return d.substr(0, 3) == "756" && weighted_sum(d, kWeights) % 10 == 0;
}

bool croatian(std::string_view d) { return mod11_10(d) && !all_same(d); }

bool baltic(std::string_view d) {  // Estonia and Lithuania
  static constexpr int8_t kFirst[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1};
  static constexpr int8_t kSecond[] = {3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
  if (d[0] == '0' || d[0] == '9' || !date_of(d, 1, 3, 5)) return false;
  int check = weighted_sum(d, kFirst) % 11;
  if (check == 10) check = weighted_sum(d, kSecond) % 11 % 10;
  return check == digit(d, 10);
}

bool greek(std::string_view d) { return date_of(d, 4, 2, 0) && luhn(d); }

bool danish(std::string_view d) {  // has had no check digit since 2007
  return valid_date(2000 + part(d, 4, 2), part(d, 2, 2), part(d, 0, 2)) && !all_same(d.substr(6));
}

constexpr auto kId = PiiClass::NationalId;
constexpr Shape kShapes[] = {
    {"15", kId, "fr", french_nir, 0, true},
    {"1 2 2 2 3 3 2", kId, "fr", french_nir, 0, false},
    {"13 2", kId, "fr", french_nir, 0, false},
    {"11", kId, "de", german_tax, kSaysNational, false},
    {"2 3 3 3", kId, "de", german_tax, 0, true},
    {"9", kId, "nl", dutch_bsn, kSaysNational, false},
    {"4.2.3", kId, "nl", dutch_bsn, kSaysNational, false},
    {"3~3~3", kId, "nl", dutch_bsn, kSaysNational, false},
    {"11", kId, "be", belgian, kSaysNational, false},
    {"2.2.2-3.2", kId, "be", belgian, 0, false},
    {"11", kId, "pl", pesel, kSaysNational, false},
    {"6-4", kId, "se", swedish, 0, true},
    {"8-4", kId, "se", swedish, 0, true},
    {"10", kId, "se", swedish, kSaysNational, false},
    {"12", kId, "se", swedish, kSaysNational, false},
    {"11", kId, "no", norwegian, kSaysNational, true},
    {"6 5", kId, "no", norwegian, 0, true},
    {"6/4", kId, "cz", czech, 0, true},
    {"10", kId, "cz", czech, kSaysNational, false},
    {"9", kId, "pt", portuguese, kSaysNational, false},
    {"3 3 3", kId, "pt", portuguese, kSaysNational, false},
    {"13", kId, "ro", romanian, kSaysNational, false},
    {"10", kId, "bg", bulgarian, kSaysNational, false},
    {"3.4.4.2", kId, "ch", swiss, 0, false},
    {"13", kId, "ch", swiss, kSaysNational, false},
    {"11", kId, "hr", croatian, kSaysNational, false},
    {"11", kId, "ee", baltic, kSaysNational, false},
    {"11", kId, "gr", greek, kSaysNational, false},
    {"6-4", kId, "dk", danish, kSaysNational, false},
};

}

std::span<const Shape> european_shapes() { return kShapes; }

}
