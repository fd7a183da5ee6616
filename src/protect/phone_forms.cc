// National phone numbers whose grouping is used for little else, by country.

#include "checks.h"
#include "context.h"
#include "shapes.h"

namespace mvm::protect {
namespace {

bool starts(std::string_view d, std::string_view prefix) { return d.starts_with(prefix); }
bool second_in(std::string_view d, std::string_view set) {
  return d[0] == '0' && set.find(d[1]) != std::string_view::npos;
}

bool north_american(std::string_view d) {
  if (d.size() == 11) {
    if (d[0] != '1') return false;
    d.remove_prefix(1);
  }
  // Area and exchange codes start from 2 and are not service codes such as 911.
  const auto code = [&](size_t at) {
    return d[at] >= '2' && !(d[at + 1] == '1' && d[at + 2] == '1');
  };
  return code(0) && code(3) && !all_same(d);
}
bool british(std::string_view d) { return second_in(d, "12378") && !all_same(d.substr(2)); }
bool french(std::string_view d) { return second_in(d, "12345679"); }
bool spanish(std::string_view d) { return d[0] >= '6' && d[0] != '0' && d[1] != '0'; }
bool dutch_mobile(std::string_view d) { return starts(d, "06") && d[2] != '0'; }
bool dutch(std::string_view d) { return second_in(d, "12345789") && d[2] != '0'; }
bool belgian_mobile(std::string_view d) { return starts(d, "04") && d[2] >= '5'; }
bool swiss(std::string_view d) { return second_in(d, "234567"); }
bool swedish(std::string_view d) { return second_in(d, "123456789"); }
bool irish(std::string_view d) { return starts(d, "08") && d[2] >= '3'; }
bool australian_mobile(std::string_view d) { return starts(d, "04"); }
bool australian(std::string_view d) { return second_in(d, "2378"); }
bool japanese_mobile(std::string_view d) {
  return starts(d, "090") || starts(d, "080") || starts(d, "070") || starts(d, "050");
}
bool japanese(std::string_view d) { return second_in(d, "123456789"); }
bool korean_mobile(std::string_view d) { return starts(d, "010"); }
bool korean_seoul(std::string_view d) { return starts(d, "02") && d[2] >= '2'; }
bool chinese_mobile(std::string_view d) { return d[0] == '1' && d[1] >= '3'; }
bool indian_mobile(std::string_view d) {
  return d[d.size() - 10] >= '6' && (d.size() == 10 || d[0] == '0');
}
bool brazilian_mobile(std::string_view d) { return d[0] >= '1' && d[2] == '9'; }
bool brazilian(std::string_view d) { return d[0] >= '1' && d[2] >= '2' && d[2] <= '5'; }
bool russian(std::string_view d) { return d[0] == '8' && d[1] >= '3'; }
bool turkish(std::string_view d) { return d[0] == '0' && d[1] >= '2' && d[1] <= '5'; }
bool israeli(std::string_view d) { return starts(d, "05") || starts(d, "07"); }
bool south_african(std::string_view d) { return second_in(d, "12345678"); }
bool polish_or_portuguese(std::string_view d) { return d[0] != '0' && d[0] != '1'; }
bool german(std::string_view d) { return d[0] == '0' && d[1] != '0' && d.size() >= 9; }

constexpr auto kPhone = PiiClass::Phone;
constexpr Shape kShapes[] = {
    {"(3)3-4", kPhone, "us", north_american, 0, false},
    {"3-3-4", kPhone, "us", north_american, 0, true},
    {"3.3.4", kPhone, "us", north_american, 0, true},
    {"1-3-3-4", kPhone, "us", north_american, 0, true},
    {"1 3-3-4", kPhone, "us", north_american, 0, true},
    {"3 3-4", kPhone, "us", north_american, 0, true},
    {"5 6", kPhone, "gb", british, 0, true},
    {"5 3 3", kPhone, "gb", british, 0, true},
    {"3 4 4", kPhone, "gb", british, 0, true},
    {"4 3 4", kPhone, "gb", british, 0, true},
    {"(3)4 4", kPhone, "gb", british, 0, false},
    {"2~2~2~2~2", kPhone, "fr", french, 0, true},
    {"3 2 2 2", kPhone, "es", spanish, kSaysPhone, false},
    {"2-8", kPhone, "nl", dutch_mobile, 0, true},
    {"2 8", kPhone, "nl", dutch_mobile, 0, true},
    {"2 2 2 2 2", kPhone, "nl", dutch_mobile, 0, true},
    {"3-7", kPhone, "nl", dutch, 0, true},
    {"4 2 2 2", kPhone, "be", belgian_mobile, 0, true},
    {"3 3 2 2", kPhone, "ch", swiss, 0, true},
    {"3-3 2 2", kPhone, "se", swedish, 0, true},
    {"2-3 3 2", kPhone, "se", swedish, 0, true},
    {"3-2 2 2", kPhone, "se", swedish, 0, true},
    {"3-3 3 2", kPhone, "se", swedish, 0, true},
    {"3 3 4", kPhone, "ie", irish, 0, true},
    {"4 3 3", kPhone, "au", australian_mobile, 0, true},
    {"(2)4 4", kPhone, "au", australian, 0, false},
    {"3-4-4", kPhone, "jp", japanese_mobile, 0, true},
    {"2-4-4", kPhone, "jp", japanese, 0, true},
    {"3-3-4", kPhone, "jp", japanese, 0, true},
    {"4-2-4", kPhone, "jp", japanese, 0, true},
    {"4-3-3", kPhone, "jp", japanese, 0, true},
    {"3-4-4", kPhone, "kr", korean_mobile, 0, true},
    {"2-3-4", kPhone, "kr", korean_seoul, 0, true},
    {"2-4-4", kPhone, "kr", korean_seoul, 0, true},
    {"3 4 4", kPhone, "cn", chinese_mobile, 0, true},
    {"3-4-4", kPhone, "cn", chinese_mobile, 0, true},
    {"5 5", kPhone, "in", indian_mobile, kSaysPhone, false},
    {"6 5", kPhone, "in", indian_mobile, 0, true},
    {"(2)5-4", kPhone, "br", brazilian_mobile, 0, false},
    {"(2)4-4", kPhone, "br", brazilian, 0, false},
    {"1 3 3-2-2", kPhone, "ru", russian, 0, true},
    {"1(3)3-2-2", kPhone, "ru", russian, 0, true},
    {"4 3 2 2", kPhone, "tr", turkish, 0, true},
    {"(4)3 2 2", kPhone, "tr", turkish, 0, true},
    {"3-3-4", kPhone, "il", israeli, 0, true},
    {"3 3 4", kPhone, "za", south_african, 0, true},
    {"3 3 3", kPhone, "pl", polish_or_portuguese, kSaysPhone, false},
    {"4/7", kPhone, "de", german, 0, true},
    {"4/8", kPhone, "de", german, 0, true},
    {"3/7", kPhone, "de", german, 0, true},
    {"3/8", kPhone, "de", german, 0, true},
};

}

std::span<const Shape> phone_shapes() { return kShapes; }

}
