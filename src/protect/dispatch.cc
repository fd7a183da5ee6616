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

Found wanted(Found found, const ClassSet& classes) {
  if (found && !classes.has(found->kind)) return std::nullopt;
  return found;
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
    if (Found found = wanted(match_mac(window, token.start), classes);
        found && found->end == token.end)
      return {found, token.end};
    for (const auto match : {match_api_key, match_wallet, match_secret_value})
      if (Found found = wanted(match(window, token), classes)) return {found, found->end};
    if (is_uuid(token.text)) return {std::nullopt, token.end};
  }
  return {std::nullopt, token.text.size() > kMaxMixedWord ? token.end : 0};
}

Found examine_group(const Window& window, const Numbers& numbers, size_t group,
                    const ClassSet& classes) {
  const auto ask = [&](PiiClass kind, auto match) -> Found {
    if (!classes.has(kind)) return std::nullopt;
    return match(window, numbers, group);
  };
  const uint8_t length = numbers.groups[group].length;
  if (Found found = ask(PiiClass::Ipv4, match_ipv4)) return found;
  if (may_start_shape(length)) {
    const Candidate candidate{window, numbers, group, group, {}};
    if (Found found = match_shape(candidate, classes)) return found;
  }
  if (length <= 4) {
    if (Found found = ask(PiiClass::BirthDate, match_date)) return found;
    if (Found found = ask(PiiClass::BirthDate, match_named_month)) return found;
    if (Found found = ask(PiiClass::Coordinates, match_coordinates)) return found;
  }
  return ask(PiiClass::Phone, match_phone);
}

Outcome examine_numbers(const Window& window, size_t at, const ClassSet& classes) {
  const char before = window.before(at);
  if (is(before, kAlpha)) {
    if (Found found = wanted(match_spaced_iban(window, at), classes)) return {found, found->end};
  }
  const Numbers numbers = read_numbers(window, at);
  const size_t first_end = numbers.end_of(0);
  const bool mixed = is(before, kAlpha) || is(window.at(first_end), kAlpha);
  if (mixed || numbers.groups[0].length >= 7) {
    if (Found found = wanted(match_word(window, at, classes), classes)) return {found, found->end};
  }
  if (is(before, kAlpha) || before == '_') return {std::nullopt, first_end};
  if (Found found = wanted(match_spaced_id(window, at), classes)) return {found, found->end};
  // Numbers that are too small to be anything, the most frequent case.
  if (numbers.count == 1 && numbers.groups[0].length < 7 && before != '(' && before != '+') {
    const char after = window.at(first_end);
    if (after != ' ' && after != '.' && !is(after, kHigh) && !is(after, kAlpha) && after != ',' &&
        after != '-')
      return {std::nullopt, first_end};
  }
  for (size_t group = 0; group < numbers.count; ++group)
    if (Found found = examine_group(window, numbers, group, classes)) return {found, found->end};
  return {std::nullopt, numbers.end};
}

}

Outcome examine(const Window& window, size_t at, const ClassSet& classes) {
  const char c = window.at(at);
  if (c == '@') {
    if (Found found = wanted(match_url_password(window, at), classes)) return {found, at + 1};
    return {wanted(match_email(window, at), classes), at + 1};
  }
  if (c == ':') return {wanted(match_ipv6(window, at), classes), at + 1};
  if (c == '-') {
    if (Found found = match_private_key(window, at)) return {wanted(found, classes), found->end};
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
    if (Found found = wanted(match_mac(window, at), classes)) return {found, found->end};
    // A run of hexadecimal digits with a colon early on.
    for (size_t i = 1; i <= 4; ++i) {
      if (window.at(at + i) != ':') continue;
      if (Found found = wanted(match_ipv6(window, at), classes)) return {found, found->end};
      break;
    }
  }
  if (is(c, kDigit)) return examine_numbers(window, at, classes);
  return {std::nullopt, at + 1};
}

}
