#include "dispatch.h"

#include <algorithm>
#include <optional>

#include "context.h"
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
  if (Found found = token.open ? match_api_key(window, token) : std::nullopt;
      wanted(found, classes))
    return {found, found->end};
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

// The fewest digits that a row of the table of number forms has, and a phone number.
constexpr size_t kLeastShape = 8;
constexpr size_t kLeastPhone = 7;

// Whether the words before a number say nothing that a national phone number needs, asked once for
// all of its groups: what stands before the later ones are the same words.
class Quiet {
 public:
  Quiet(const Window& window, const Numbers& numbers) : window_(window), numbers_(numbers) {}

  bool operator()() {
    if (!known_) known_ = find();
    return *known_;
  }

 private:
  bool find() const {
    const size_t start = numbers_.groups[0].start;
    // A number in parentheses begins before them, and one with a country code needs no words.
    if (window_.before(start) == '(' || window_.before(start) == '+') return false;
    // A space beyond ASCII between digits has the words of other scripts looked for.
    for (size_t group = 1; group < numbers_.count; ++group) {
      const Group& now = numbers_.groups[group];
      if (now.separator == ' ' && now.start != numbers_.end_of(group - 1) + 1) return false;
    }
    return (context_before(window_, start) & ~uint32_t{kSaysOther}) == 0;
  }

  const Window& window_;
  const Numbers& numbers_;
  std::optional<bool> known_;
};

Found examine_group(const Window& window, const Numbers& numbers, size_t group, Quiet& quiet,
                    const ClassSet& classes) {
  const auto ask = [&](PiiClass kind, auto match) -> Found {
    if (!classes.has(kind)) return std::nullopt;
    return match(window, numbers, group);
  };
  const Group& first = numbers.groups[group];
  const bool more = group + 1 < numbers.count;
  const Group next = more ? numbers.groups[group + 1] : Group{};
  if (next.separator == '.' && first.length <= 3) {
    if (group + 3 < numbers.count)
      if (Found found = ask(PiiClass::Ipv4, match_ipv4)) return found;
    if (next.length >= 3)
      if (Found found = ask(PiiClass::Coordinates, match_coordinates)) return found;
  }
  const size_t left = numbers.digits_from(group);
  if (left >= kLeastShape && may_start_shape(first.length, next.length)) {
    const Candidate candidate{window, numbers, group, group, {}};
    if (Found found = match_shape(candidate, classes)) return found;
  }
  if (first.length <= 4 && group + 2 < numbers.count && next.separator != '(')
    if (Found found = ask(PiiClass::BirthDate, match_date)) return found;
  if (first.length == 4)
    if (Found found = ask(PiiClass::BirthDate, match_named_month)) return found;
  if (left < kLeastPhone || !may_be_phone(window, numbers, group) || quiet()) return std::nullopt;
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

// Whether it begins like one of what match_spaced_id() finds: "AB 12 34 56 C", "131052-308T",
// "12345678-Z", "12.345.678-K".
bool may_be_spaced_id(const Window& window, const Numbers& numbers) {
  const Group& first = numbers.groups[0];
  if (window.before(first.start) == ' ' && is(window.before(first.start - 1), kUpper)) return true;
  return first.length == 6 || first.length == 8 ||
         (first.length <= 2 && window.at(numbers.end_of(0)) == '.');
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
  if (classes.has(PiiClass::Iban) && (is(before, kUpper) || before == ' ' || before == '-')) {
    if (Found found = match_iban_around(window, at)) return {found, found->end};
  }
  if (!is(before, kAlnum) && is_timestamp(window, at) && !classes.empty()) {
    if ((context_before(window, at) & kSaysBirth) != 0) {
      const Numbers date = read_numbers(window, at);
      if (Found found = match_date(window, date, 0); wanted(found, classes))
        return {found, found->end};
    }
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
  if (may_be_spaced_id(window, numbers))
    if (Found found = match_spaced_id(window, at); wanted(found, classes))
      return {found, found->end};
  Quiet quiet(window, numbers);
  for (size_t group = 0; group < numbers.count; ++group)
    if (Found found = examine_group(window, numbers, group, quiet, classes))
      return {found, found->end};
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
