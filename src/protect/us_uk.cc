// Numbers of digits alone in the United States and the United Kingdom.

#include "checks.h"
#include "context.h"
#include "shapes.h"

namespace mvm::protect {
namespace {

// Never issued: area 000, 666 and 9xx, group 00, serial 0000; and the numbers of advertisements.
bool ssn(std::string_view d) {
  const unsigned area = part(d, 0, 3);
  if (area == 0 || area == 666 || area >= 900) return false;
  if (part(d, 3, 2) == 0 || part(d, 5, 4) == 0) return false;
  return d != "078051120" && d != "219099999" && !all_same(d) && d != "123456789";
}

bool itin(std::string_view d) {
  const unsigned group = part(d, 3, 2);
  const bool range = (group >= 50 && group <= 65) || (group >= 70 && group <= 88) ||
                     (group >= 90 && group <= 92) || group >= 94;
  return d[0] == '9' && range && part(d, 5, 4) != 0;
}

bool nhs(std::string_view d) {
  static constexpr int8_t kWeights[] = {10, 9, 8, 7, 6, 5, 4, 3, 2};
  const int check = 11 - weighted_sum(d, kWeights) % 11;
  return !all_same(d) && check != 10 && check % 11 == d[9] - '0';
}

constexpr Shape kShapes[] = {
    {"3-2-4", PiiClass::UsSsn, "us", ssn, 0, true},
    {"3 2 4", PiiClass::UsSsn, "us", ssn, kSaysSsn, false},
    {"9", PiiClass::UsSsn, "us", ssn, kSaysSsn, false},
    {"3-2-4", PiiClass::UsItin, "us", itin, 0, true},
    {"3 2 4", PiiClass::UsItin, "us", itin, kSaysSsn, false},
    {"9", PiiClass::UsItin, "us", itin, kSaysSsn, false},
    {"10", PiiClass::UkNhs, "gb", nhs, kSaysHealth, false},
    {"3~3~4", PiiClass::UkNhs, "gb", nhs, kSaysHealth, false},
};

}

std::span<const Shape> us_uk_shapes() { return kShapes; }

}
