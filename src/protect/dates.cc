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

// A year of four digits at `at`; the end, or 0.
size_t year_at(const Window& window, size_t at) {
  unsigned year = 0;
  for (size_t i = 0; i < 4; ++i) {
    if (!is(window.at(at + i), kDigit)) return 0;
    year = year * 10 + static_cast<unsigned>(window.at(at + i) - '0');
  }
  return plausible_year(year) && !is(window.at(at + 4), kAlnum) ? at + 4 : 0;
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

Found match_named_month(const Window& window, const Numbers& numbers, size_t first) {
  const Group& day = numbers.groups[first];
  if (day.length > 2) return std::nullopt;
  const size_t end = numbers.end_of(first);
  // "12 March 1985", "12. März 1985", "12 de marzo de 1985", "12th of March 1985"
  size_t at = end;
  for (const std::string_view filler : {"st", "nd", "rd", "th", "er", ".", " ", "de ", "of ", "-"})
    at = skip(window, at, filler);
  if (at > end) {
    if (const size_t month = month_at(window, at); month != 0) {
      at += month;
      for (const std::string_view filler : {".", ",", " ", "de ", "-"})
        at = skip(window, at, filler);
      const size_t year_end = year_at(window, at);
      return year_end == 0 ? std::nullopt : birth(window, day.start, year_end);
    }
  }
  // "March 12, 1985"
  if (window.before(day.start) != ' ' || !is(window.before(day.start - 1), kAlpha))
    return std::nullopt;
  size_t from = day.start - 1;
  while (from > 0 && day.start - from < 14 && is(window.before(from), kAlpha)) --from;
  if (month_at(window, from) != day.start - 1 - from) return std::nullopt;
  at = end;
  for (const std::string_view filler : {"st", "nd", "rd", "th", ",", " "})
    at = skip(window, at, filler);
  const size_t year_end = at == end ? 0 : year_at(window, at);
  return year_end == 0 ? std::nullopt : birth(window, from, year_end);
}

}
