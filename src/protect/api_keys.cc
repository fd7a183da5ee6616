// Keys of known providers, found by what they start with; the table is in api_key_table.cc. Those
// that have no shape of their own are found beside the provider's name.

#include "api_keys.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <vector>

#include "checks.h"
#include "detectors.h"
#include "letters.h"

namespace mvm::protect {
namespace {

bool belongs(char c, Alphabet alphabet) {
  switch (alphabet) {
    case Alphabet::Hex:
      return is(c, kDigit) || (is(c, kLower) && is_hex(c));
    case Alphabet::HexAny:
      return is_hex(c);
    case Alphabet::Upper:
      return is(c, kDigit | kUpper);
    case Alphabet::Lower:
      return is(c, kDigit | kLower);
    case Alphabet::Alnum:
      return is(c, kAlnum);
    case Alphabet::Dash:
      return is(c, kAlnum | kWordMark);
    case Alphabet::Dot:
      return is(c, kAlnum | kWordMark) || c == '.';
    case Alphabet::Base64:
      return is(c, kAlnum | kWordMark | kBase64);
    case Alphabet::Percent:
      return is(c, kAlnum | kWordMark | kBase64) || c == '%';
  }
  return false;
}

// Six different characters: "sk_live_xxxxxxxx" is nobody's key.
bool varied(std::string_view text) {
  std::bitset<256> seen;
  for (const char c : text) seen.set(static_cast<uint8_t>(c));
  return seen.count() >= 6;
}

// The last six characters are the CRC-32 of the rest in base 62 (GitHub, npm).
bool github_crc(std::string_view body) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  if (body.size() < 36) return false;
  uint32_t crc = crc32(body.substr(0, body.size() - 6));
  for (size_t i = 0; i < 6; ++i, crc /= 62)
    if (body[body.size() - 1 - i] != kDigits[crc % 62]) return false;
  return true;
}

// The end of the value that starts at `from`, or 0.
size_t value_end(const Window& window, size_t from, Alphabet alphabet, size_t least, size_t most) {
  size_t end = from;
  while (end - from <= most && belongs(window.at(end), alphabet)) ++end;
  // A full stop at a sentence's end is not part of a key.
  while (end > from && window.before(end) == '.') --end;
  if (end - from < least || end - from > most) return 0;
  const char after = window.at(end);
  if (is(after, kAlnum) || after == '_') return 0;
  if (after == '-' && is(window.at(end + 1), kAlnum)) return 0;
  return varied(window.text(from, end)) ? end : 0;
}

Found match_form(const Window& window, size_t start, const KeyForm& form) {
  const size_t from = start + form.prefix.size();
  const size_t end = value_end(window, from, form.alphabet, form.least, form.most);
  if (end == 0) return std::nullopt;
  const std::string_view body = window.text(from, end);
  if (form.check == KeyCheck::GithubCrc && !github_crc(body)) return std::nullopt;
  // No digit: words, not a key. In capitals alone nobody writes words so long, and of AWS' keys one
  // in 28 has none.
  if (form.alphabet != Alphabet::Upper && body.size() < 60 &&
      std::ranges::none_of(body, [](char c) { return is(c, kDigit); }))
    return std::nullopt;
  return Hit{start, end, PiiClass::ApiKey, form.provider};
}

using Rows = std::array<std::vector<const KeyForm*>, 128>;

// By first character; those that end in a dot apart, since the run that triggers follows them.
const Rows& rows(bool dotted) {
  static const auto* const made = [] {
    auto* out = new std::array<Rows, 2>;
    for (const KeyForm& form : key_forms()) {
      const bool dot = form.prefix.back() == '.';
      out->at(dot ? 1 : 0).at(static_cast<uint8_t>(form.prefix.front())).push_back(&form);
    }
    return out;
  }();
  return made->at(dotted ? 1 : 0);
}

Found match_dotted(const Window& window, const Token& token) {
  if (window.before(token.start) != '.') return std::nullopt;
  for (const auto& list : rows(true)) {
    for (const KeyForm* form : list) {
      const std::string_view behind = window.behind(token.start, form->prefix.size() + 1);
      if (!behind.ends_with(form->prefix)) continue;
      if (behind.size() > form->prefix.size() && is(behind.front(), kAlnum | kWordMark)) continue;
      if (Found found = match_form(window, token.start - form->prefix.size(), *form)) return found;
    }
  }
  // Terraform Cloud: 14 characters, ".atlasv1.", 60 or more.
  const std::string_view behind = window.behind(token.start, 23);
  if (behind.size() == 23 && behind.ends_with(".atlasv1.") &&
      std::ranges::all_of(behind.substr(0, 14), [](char c) { return is(c, kAlnum); })) {
    if (const size_t end = value_end(window, token.start, Alphabet::Dash, 60, 80); end != 0)
      return Hit{token.start - 23, end, PiiClass::ApiKey, "terraform"};
  }
  // Doppler's services: "dp.st.", the environment, ".", 43.
  constexpr std::string_view kDoppler = "dp.st.";
  const std::string_view service = window.behind(token.start, kDoppler.size() + 40);
  const size_t at = service.rfind(kDoppler);
  if (at != std::string_view::npos && (at == 0 || !is(service[at - 1], kAlnum | kWordMark)) &&
      std::ranges::all_of(service.substr(at + kDoppler.size()),
                          [](char c) { return is(c, kDigit | kLower | kWordMark) || c == '.'; })) {
    if (const size_t end = value_end(window, token.start, Alphabet::Alnum, 43, 43); end != 0)
      return Hit{token.start - service.size() + at, end, PiiClass::ApiKey, "doppler"};
  }
  return std::nullopt;
}

// Keys of several parts with marks between them.
Found match_parts(const Window& window, const Token& token) {
  const char before = window.before(token.start);
  const auto take = [&](size_t from, size_t least, size_t most) {
    size_t end = from;
    while (end - from <= most && is(window.at(end), kAlnum | kWordMark)) ++end;
    return end - from < least || end - from > most ? size_t{0} : end;
  };
  // Discord bots: the user's number in base64, a time, a check value.
  if ((token.text[0] == 'M' || token.text[0] == 'N' || token.text[0] == 'O') &&
      token.text.size() >= 23 && token.text.size() <= 28 && window.at(token.end) == '.') {
    const size_t time = take(token.end + 1, 6, 6);
    const size_t check = time != 0 && window.at(time) == '.' ? take(time + 1, 27, 38) : 0;
    if (check != 0) return Hit{token.start, check, PiiClass::ApiKey, "discord"};
  }
  // Telegram bots: "123456789:AA…", 35 behind the colon.
  if (before == ':' && token.text.size() == 35 && token.text.starts_with("AA")) {
    size_t start = token.start - 1;
    while (start > 0 && token.start - start < 12 && is(window.before(start), kDigit)) --start;
    if (token.start - 1 - start >= 8 && !is(window.before(start), kAlnum))
      return Hit{start, token.end, PiiClass::ApiKey, "telegram"};
  }
  // Azure Active Directory: three characters, "8Q~", 34.
  if (before == '~' && token.start >= 6 && token.text.size() >= 31 && token.text.size() <= 34) {
    const std::string_view behind = window.behind(token.start, 7);
    if (behind.ends_with("Q~") && is(behind[behind.size() - 3], kDigit) &&
        !is(behind.front(), kAlnum))
      return Hit{token.start - 6, token.end, PiiClass::ApiKey, "azure"};
  }
  // Mailchimp: 32 hexadecimal digits and a data centre.
  const std::string_view text = token.text;
  if (text.size() >= 36 && text.size() <= 37 && text.substr(32, 3) == "-us" &&
      std::ranges::all_of(text.substr(0, 32), is_hex)) {
    return Hit{token.start, token.end, PiiClass::ApiKey, "mailchimp"};
  }
  // Webhooks are secrets as a whole: whoever has the address may post.
  if (before == '/') {
    const std::string_view behind = window.behind(token.start, 64);
    const size_t slack = behind.rfind("https://hooks.slack.com/services/T");
    if (slack != std::string_view::npos && token.text.size() == 24)
      return Hit{token.start - behind.size() + slack, token.end, PiiClass::ApiKey, "slack"};
    const size_t discord = behind.rfind("https://discord.com/api/webhooks/");
    if (discord != std::string_view::npos && token.text.size() >= 60)
      return Hit{token.start - behind.size() + discord, token.end, PiiClass::ApiKey, "discord"};
  }
  return std::nullopt;
}

bool contains_label(std::string_view text, std::string_view label) {
  const auto found = std::ranges::search(text, label, [](char a, char b) { return lower(a) == b; });
  return !found.empty();
}

Found match_labelled(const Window& window, const Token& token) {
  size_t start = token.start;
  while (start > 0 && token.start - start < 44 && belongs(window.before(start), Alphabet::Base64) &&
         window.before(start) != '=') {
    --start;
  }
  const char before = window.before(start);
  if (before != '"' && before != '\'' && before != '=' && before != ' ' && before != ':')
    return std::nullopt;
  const std::string_view behind = window.behind(start, 64);
  const size_t line = behind.rfind('\n');
  const std::string_view label = line == std::string_view::npos ? behind : behind.substr(line + 1);
  if (label.find_first_of("=:") == std::string_view::npos) return std::nullopt;
  const auto names_key = [&] {
    constexpr std::string_view kWords[] = {"key", "token", "secret", "password"};
    for (const std::string_view word : kWords)
      if (contains_label(label, word)) return true;
    return false;
  };
  if (!names_key()) return std::nullopt;
  for (const LabelledKey& row : labelled_keys()) {
    const size_t from = row.alphabet == Alphabet::Base64 ? start : token.start;
    if (from != start && is(window.before(from), kBase64) && window.before(from) != '=') continue;
    const size_t end = value_end(window, from, row.alphabet, row.least, row.most);
    if (end == 0 || !contains_label(label, row.label)) continue;
    return Hit{from, end, PiiClass::ApiKey, row.provider};
  }
  return std::nullopt;
}

}

Found match_api_key(const Window& window, const Token& token) {
  const char first = token.text[0];
  if (is(first, kAlnum)) {
    for (const KeyForm* form : rows(false)[static_cast<uint8_t>(first)]) {
      // Two letters first: a call to compare costs more than all that are none.
      if (token.text[1] != form->prefix[1] || !token.text.starts_with(form->prefix)) continue;
      if (Found found = match_form(window, token.start, *form)) return found;
    }
  }
  if (Found found = match_dotted(window, token)) return found;
  if (token.open) return std::nullopt;  // the others are shorter
  if (Found found = match_parts(window, token)) return found;
  return match_labelled(window, token);
}

}
