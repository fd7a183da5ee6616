#include "dispatch.h"

#include <algorithm>

#include "detectors.h"
#include "letters.h"
#include "number.h"

namespace mvm::protect {
namespace {

constexpr size_t kMaxToken = 512;  // longest run that is looked at as one
constexpr size_t kMinToken = 16;
constexpr size_t kMaxMixedWord = 24;  // a longer run holds no number of its own

// A look at what was found, not a copy: a detector that finds nothing writes one byte of its
// answer, and to read all of that at once costs more than most detectors.
bool wanted(const Found& found, const ClassSet& classes) {
  return found && classes.has(found->kind);
}

Token read_token(const Window& window, size_t at) {
  size_t end = at;
  while (end - at < kMaxToken && is(window.at(end), kAlnum | kWordMark)) ++end;
  return {at, end, window.text(at, end), end - at == kMaxToken};
}

Outcome examine_token(const Window& window, Token token, const ClassSet& classes) {
  while (!token.text.empty() && token.text.front() == '-') {
    token.text.remove_prefix(1);
    ++token.start;
  }
  const bool digits =
      std::ranges::all_of(token.text, [](char c) { return is(c, kDigit) || c == '-'; });
  if (token.text.size() < kMinToken || digits) return {std::nullopt, 0};
  if (Found found = match_jwt(window, token); wanted(found, classes)) return {found, found->end};
  if (!token.open) {
    if (Found found = match_mac(window, token.start);
        wanted(found, classes) && found->end == token.end)
      return {found, token.end};
    for (const auto match : {match_api_key, match_wallet, match_secret_value})
      if (Found found = match(window, token); wanted(found, classes)) return {found, found->end};
    if (is_uuid(token.text)) return {std::nullopt, token.end};
    // Identity numbers in which letters and digits alternate begin here, not at their digits.
    if (Found found = match_word(window, token.start, classes); wanted(found, classes))
      return {found, found->end};
  }
  return {std::nullopt, token.text.size() > kMaxMixedWord ? token.end : 0};
}

Found examine_group(const Window& window, const Numbers& numbers, size_t group,
                    const ClassSet& classes) {
  const auto ask = [&](PiiClass kind, auto match) -> Found {
    if (!classes.has(kind)) return std::nullopt;
    return match(window, numbers, group);
  };
  const Group& first = numbers.groups[group];
  const char next = group + 1 < numbers.count ? numbers.groups[group + 1].separator : '\0';
  if (next == '.' && first.length <= 3) {
    if (Found found = ask(PiiClass::Ipv4, match_ipv4)) return found;
    if (Found found = ask(PiiClass::Coordinates, match_coordinates)) return found;
  }
  if (may_start_shape(first.length)) {
    const Candidate candidate{window, numbers, group, group, {}};
    if (Found found = match_shape(candidate, classes)) return found;
  }
  if (first.length <= 4 && next != '\0' && next != '(')
    if (Found found = ask(PiiClass::BirthDate, match_date)) return found;
  if (first.length == 4)
    if (Found found = ask(PiiClass::BirthDate, match_named_month)) return found;
  return ask(PiiClass::Phone, match_phone);
}

// Time stamps, the most frequent of long numbers: a date, and a time or nothing behind it.
bool is_timestamp(const Window& window, size_t at) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd";
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char c = window.at(at + i);
    if (kForm[i] == 'd' ? !is(c, kDigit) : c != kForm[i] && (kForm[i] != 'T' || c != ' '))
      return false;
  }
  return true;
}

// An IBAN in groups of four whose first groups hold few digits: found by its later ones.
Found match_iban_around(const Window& window, size_t at) {
  if (Found found = match_spaced_iban(window, at)) return found;
  for (size_t back = 5; back <= 20 && back <= at; back += 5) {
    if (window.before(at - back + 5) != ' ' && window.before(at - back + 5) != '-')
      return std::nullopt;
    if (Found found = match_spaced_iban(window, at - back + 2)) return found;
  }
  return std::nullopt;
}

Outcome examine_numbers(const Window& window, size_t at, const ClassSet& classes) {
  const char before = window.before(at);
  if (classes.has(PiiClass::Iban)) {
    if (Found found = match_iban_around(window, at)) return {found, found->end};
  }
  if (!is(before, kAlnum) && is_timestamp(window, at) && !classes.empty()) {
    const Numbers date = read_numbers(window, at);
    if (Found found = match_date(window, date, 0); wanted(found, classes))
      return {found, found->end};
    return {std::nullopt, at + 16};
  }
  const Numbers numbers = read_numbers(window, at);
  const size_t first_end = numbers.end_of(0);
  const bool mixed = is(before, kAlpha) || is(window.at(first_end), kAlpha);
  if (mixed || numbers.groups[0].length >= 7) {
    if (Found found = match_word(window, at, classes); wanted(found, classes))
      return {found, found->end};
  }
  if (is(before, kAlpha) || before == '_') return {std::nullopt, first_end};
  if (Found found = match_spaced_id(window, at); wanted(found, classes)) return {found, found->end};
  for (size_t group = 0; group < numbers.count; ++group)
    if (Found found = examine_group(window, numbers, group, classes)) return {found, found->end};
  return {std::nullopt, numbers.end};
}

// At the last digit before a byte beyond ASCII: "48°51'24\"N", "1985年3月12日".
Outcome examine_marked(const Window& window, size_t at, const ClassSet& classes) {
  size_t start = at;
  while (start > 0 && at - start < 8 && is(window.before(start), kDigit)) --start;
  if (at - start > 3) return {std::nullopt, at + 1};
  const Numbers numbers = read_numbers(window, start);
  for (const auto match : {match_date, match_coordinates})
    if (Found found = match(window, numbers, 0); wanted(found, classes)) return {found, found->end};
  return {std::nullopt, at + 1};
}

}

Outcome examine(const Window& window, size_t at, const ClassSet& classes) {
  const char c = window.at(at);
  if (c == '@') {
    if (Found found = match_url_password(window, at); wanted(found, classes))
      return {found, at + 1};
    Outcome outcome{match_email(window, at), at + 1};
    if (!wanted(outcome.found, classes)) outcome.found.reset();
    return outcome;
  }
  if (c == ':') {
    Outcome outcome{match_ipv6(window, at), at + 1};
    if (!wanted(outcome.found, classes)) outcome.found.reset();
    return outcome;
  }
  if (c == '-') {
    if (Found found = match_private_key(window, at)) {
      if (wanted(found, classes)) return {found, found->end};
      return {std::nullopt, found->end};
    }
  }
  const bool starts_word = !is(window.before(at), kAlnum | kWordMark);
  if (starts_word) {
    const Token token = read_token(window, at);
    if (token.text.size() >= kMinToken) {
      const Outcome outcome = examine_token(window, token, classes);
      if (outcome.found || outcome.resume > at) return outcome;
    }
  }
  if (is_hex(c)) {
    if (Found found = match_mac(window, at); wanted(found, classes)) return {found, found->end};
    // A run of hexadecimal digits with a colon early on.
    for (size_t i = 1; i <= 4; ++i) {
      if (window.at(at + i) != ':') continue;
      if (Found found = match_ipv6(window, at); wanted(found, classes)) return {found, found->end};
      break;
    }
  }
  if (is(c, kDigit)) {
    if (!is(window.before(at), kDigit)) {
      const Outcome outcome = examine_numbers(window, at, classes);
      if (outcome.found) return outcome;
      // The mark may be behind this very number.
      size_t last = at;
      while (last < at + 4 && is(window.at(last + 1), kDigit)) ++last;
      if (is(window.at(last + 1), kHigh)) {
        const Outcome marked = examine_marked(window, last, classes);
        if (marked.found) return marked;
      }
      return outcome;
    }
    if (is(window.at(at + 1), kHigh)) return examine_marked(window, at, classes);
  }
  if (is(c, kUpper)) {
    if (Found found = match_word(window, at, classes); wanted(found, classes))
      return {found, found->end};
  }
  return {std::nullopt, at + 1};
}

}
