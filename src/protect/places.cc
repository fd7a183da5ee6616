// Coordinates: pairs of decimal degrees, or one with a label; degrees with minutes where the
// hemisphere is named.

#include "checks.h"
#include "context.h"
#include "letters.h"
#include "number.h"

namespace mvm::protect {
namespace {

struct Degrees {
  size_t end = 0;       // behind it; 0: none here
  size_t fraction = 0;  // digits
  unsigned whole = 0;
  char hemisphere = '\0';
};

size_t skip_mark(const Window& window, size_t at, std::string_view mark) {
  return window.starts_with(at, mark) ? at + mark.size() : at;
}

// "48.8566", "48.8566° N", "48°51'24.1\"N" from the first digit.
Degrees degrees_at(const Window& window, size_t at) {
  Degrees out;
  size_t i = at;
  while (i < at + 3 && is(window.at(i), kDigit))
    out.whole = out.whole * 10 + static_cast<unsigned>(window.at(i++) - '0');
  if (i == at) return out;
  size_t plain = i;
  if (window.at(i) == '.' && is(window.at(i + 1), kDigit)) {
    for (++i; out.fraction < 18 && is(window.at(i), kDigit); ++i) ++out.fraction;
    plain = i;
    if (is(window.at(i), kDigit)) return {};
  }
  const size_t sign = skip_mark(window, i, "°");
  if (sign == i && out.fraction == 0) return {};
  i = sign;
  const bool minutes = sign != plain && out.fraction == 0;
  for (int part = 0; minutes && part < 2; ++part) {
    const size_t digits = skip_mark(window, i, " ");
    size_t end = digits;
    while (end < digits + 7 && (is(window.at(end), kDigit) || window.at(end) == '.')) ++end;
    size_t marked = end;
    for (const std::string_view mark : {"'", "′", "’", "\"", "″", "”"})
      if (marked == end) marked = skip_mark(window, end, mark);
    if (end == digits || marked == end) break;
    i = marked;
    out.fraction = 4;
  }
  const size_t letter = skip_mark(window, i, " ");
  const char c = window.at(letter);
  if ((c == 'N' || c == 'S' || c == 'E' || c == 'W') && !is(window.at(letter + 1), kAlnum)) {
    out.hemisphere = c;
    i = letter + 1;
  } else if (minutes) {
    return {};
  }
  out.end = i;
  return out;
}

}

Found match_coordinates(const Window& window, const Numbers& numbers, size_t first) {
  const Group& group = numbers.groups[first];
  if (group.length > 3) return std::nullopt;
  const bool decimal = first + 1 < numbers.count && numbers.groups[first + 1].separator == '.' &&
                       numbers.groups[first + 1].length >= 3;
  if (!decimal && window.at(numbers.end_of(first)) != '\xc2') return std::nullopt;
  if (first > 0 && group.separator != ' ') return std::nullopt;
  const char before = window.before(group.start);
  const size_t start = group.start - (before == '-' ? 1 : 0);
  if (is(window.before(start), kAlnum) || window.before(start) == '.') return std::nullopt;
  const Degrees one = degrees_at(window, group.start);
  if (one.end == 0 || one.fraction < 3 || one.whole > 180 || is(window.at(one.end), kAlnum))
    return std::nullopt;
  if (window.at(one.end) == '.' && is(window.at(one.end + 1), kDigit)) return std::nullopt;

  size_t at = one.end;
  for (const std::string_view mark : {",", ";", " ", " "}) at = skip_mark(window, at, mark);
  const size_t second_start = at;
  at = skip_mark(window, at, "-");
  const Degrees two = at > one.end ? degrees_at(window, at) : Degrees{};
  const bool pair = two.end != 0 && two.fraction >= 3 && two.whole <= 180 && one.whole <= 90 &&
                    second_start > one.end;
  const bool named = pair && one.hemisphere != '\0' && two.hemisphere != '\0';
  if (!named && (context_before(window, start) & kSaysPlace) == 0) return std::nullopt;
  return Hit{start, pair ? two.end : one.end, PiiClass::Coordinates, ""};
}

}
