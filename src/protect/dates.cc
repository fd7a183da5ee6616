// Dates of birth: a date is one only where words say so.

#include <array>
#include <string_view>

#include "checks.h"
#include "context.h"
#include "letters.h"
#include "number.h"

namespace mvm::protect {
namespace {

bool plausible_year(unsigned year) { return year >= 1900 && year <= 2035; }
bool day_and_month(unsigned year, unsigned a, unsigned b) {
  return valid_date(year, a, b) || valid_date(year, b, a);
}

// The month names of eight languages, by their first letters; what follows must be letters.
constexpr std::string_view kMonths[] = {
    "jan",  "feb", "fév", "mar",  "mär", "apr", "avr", "abr", "may", "mai", "mag",   "jun",
    "juin", "giu", "jul", "juil", "lug", "aug", "aoû", "ago", "sep", "set", "oct",   "okt",
    "ott",  "out", "nov", "dec",  "déc", "dez", "dic", "ene", "gen", "mei", "maart", "januari",
    "sty",  "lut", "kwi", "maj",  "cze", "lip", "sie", "wrz", "paź", "lis", "gru"};

// The length of a month's name at `at`, or 0.
size_t month_at(const Window& window, size_t at) {
  size_t length = 0;
  while (length < 16 && is(window.at(at + length), kAlpha | kHigh)) ++length;
  for (const std::string_view month : kMonths) {
    if (length < month.size()) continue;
    bool same = true;
    for (size_t i = 0; same && i < month.size(); ++i) same = lower(window.at(at + i)) == month[i];
    if (same) return length;
  }
  return 0;
}

size_t skip(const Window& window, size_t at, std::string_view text) {
  return window.starts_with(at, text) ? at + text.size() : at;
}

Found birth(const Window& window, size_t start, size_t end) {
  if ((context_before(window, start) & kSaysBirth) == 0) return std::nullopt;
  return Hit{start, end, PiiClass::BirthDate, ""};
}

// "1985年3月12日", "1985년 3월 12일".
Found east_asian(const Window& window, const Numbers& numbers, size_t first) {
  size_t at = numbers.end_of(first);
  if (window.at(at) != '\xe5' && window.at(at) != '\xeb') return std::nullopt;
  constexpr std::array<std::array<std::string_view, 2>, 3> kMarks = {
      {{"年", "년"}, {"月", "월"}, {"日", "일"}}};
  for (size_t i = 0; i < kMarks.size(); ++i) {
    if (i > 0) {
      at = skip(window, at, " ");
      const size_t from = at;
      while (at < from + 2 && is(window.at(at), kDigit)) ++at;
      if (at == from) return std::nullopt;
    }
    const size_t next = skip(window, skip(window, at, kMarks.at(i)[0]), kMarks.at(i)[1]);
    if (next == at) return std::nullopt;
    at = next;
  }
  return birth(window, numbers.groups[first].start, at);
}

}

Found match_date(const Window& window, const Numbers& numbers, size_t first) {
  const Group& one = numbers.groups[first];
  if (one.length == 4 && is(window.at(numbers.end_of(first)), kHigh))
    return east_asian(window, numbers, first);
  if (first + 2 >= numbers.count) return std::nullopt;
  const Group& two = numbers.groups[first + 1];
  const Group& three = numbers.groups[first + 2];
  if (two.length > 2 || two.separator != three.separator || two.separator == '(')
    return std::nullopt;
  const auto value = [&](size_t group) { return part(numbers.digits_of(group, group), 0, 4); };
  if (one.length == 4) {
    if (three.length > 2 || !plausible_year(value(first)) ||
        !valid_date(value(first), value(first + 1), value(first + 2))) {
      return std::nullopt;
    }
  } else if (one.length <= 2 && (three.length == 4 || three.length == 2)) {
    const unsigned year = three.length == 4 ? value(first + 2) : 2000 + value(first + 2);
    if (!plausible_year(three.length == 4 ? year : 2000) ||
        !day_and_month(year, value(first), value(first + 1)))
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (is(window.before(one.start), kAlnum)) return std::nullopt;
  const char after = window.at(numbers.end_of(first + 2));
  if (is(after, kAlnum) && after != 'T') return std::nullopt;
  return birth(window, one.start, numbers.end_of(first + 2));
}

// At a year of four digits: what stands before it may be a day and a month's name.
Found match_named_month(const Window& window, const Numbers& numbers, size_t first) {
  const Group& year = numbers.groups[first];
  if (year.length != 4 || !plausible_year(part(numbers.digits_of(first, first), 0, 4)))
    return std::nullopt;
  const char before = window.before(year.start);
  if ((before != ' ' && before != '-') || is(window.at(numbers.end_of(first)), kAlnum))
    return std::nullopt;
  size_t at = year.start;
  const auto back = [&](std::string_view text) {
    const bool there = window.behind(at, text.size()) == text;
    if (there) at -= text.size();
    return there;
  };
  const auto digits_back = [&] {
    const size_t from = at;
    while (at > 0 && from - at < 2 && is(window.before(at), kDigit)) --at;
    return from != at && !is(window.before(at), kAlnum);
  };
  const auto month_back = [&] {
    const size_t from = at;
    while (at > 0 && from - at < 16 && is(window.before(at), kAlpha | kHigh)) --at;
    return from != at && month_at(window, at) == from - at;
  };
  back(" ") || back("-");
  for (const std::string_view filler : {"de", ",", "."}) back(filler);
  if (window.before(at) == ' ') --at;
  const size_t mark = at;
  // "12 March 1985", "12. März 1985", "12 de marzo de 1985", "12th of March 1985"
  if (month_back()) {
    for (const std::string_view filler : {" ", "-", "of ", "de ", "."}) back(filler);
    for (const std::string_view filler : {"st", "nd", "rd", "th", "er"}) back(filler);
    if (digits_back()) return birth(window, at, numbers.end_of(first));
  }
  // "March 12, 1985"
  at = mark;
  for (const std::string_view filler : {"st", "nd", "rd", "th"}) back(filler);
  if (digits_back() && back(" ") && month_back()) return birth(window, at, numbers.end_of(first));
  return std::nullopt;
}

}
