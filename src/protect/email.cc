// Addresses of RFC 5321 and 6531 without quoted local parts and address literals, which nobody has.
// Local parts in scripts without spaces between words are not told from what stands before them.

#include <algorithm>
#include <array>

#include "detectors.h"
#include "letters.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

constexpr size_t kMaxLocal = 64;
constexpr size_t kMaxDomain = 253;
constexpr size_t kMaxPassword = 64;

// Ends of file names that stand where a top-level domain would: "icon@2x.png"; and names that no
// mail goes to (tokens of ours are under .invalid).
constexpr std::string_view kNotDomains[] = {
    "png",  "jpg",     "jpeg",   "gif",    "svg",   "webp",  "js",    "mjs",     "cjs",
    "css",  "scss",    "tsx",    "jsx",    "json",  "html",  "htm",   "txt",     "cpp",
    "hpp",  "dll",     "exe",    "lock",   "yaml",  "yml",   "toml",  "xml",     "bak",
    "log",  "service", "target", "socket", "timer", "mount", "slice", "invalid", "localhost",
    "path", "device",  "conf",   "tgz",    "gz"};

// Of a character beyond ASCII in a domain: 0 where it is none. Those of scripts without spaces are
// part of a label that began with one, "例え.jp", and else are what follows, "example.comです".
size_t domain_letter(const Window& window, size_t at, bool any_script) {
  const char first = window.at(at);
  if (!is(first, kHigh)) return 0;
  const char second = window.at(at + 1);
  const auto lead = static_cast<uint8_t>(first);
  if (begins_letter(first, second)) return lead < 0xe0 ? 2 : 3;
  // Kana, Han, Hangul; not their punctuation (U+3000 to U+303F).
  const bool script = lead >= 0xe3 && lead <= 0xed && (lead > 0xe3 || second != '\x80');
  return any_script && script && is(second, kHigh) && is(window.at(at + 2), kHigh) ? 3 : 0;
}

size_t domain_end(const Window& window, size_t at) {
  size_t label = at;
  size_t last_label = at;
  size_t i = at;
  size_t labels = 0;
  const bool any_script = is(window.at(at), kHigh);
  const auto letter = [&](size_t where) {
    if (is(window.at(where), kAlnum)) return size_t{1};
    return domain_letter(window, where, any_script && is(window.at(label), kHigh));
  };
  while (i - at <= kMaxDomain) {
    if (const size_t length = letter(i); length > 0) {
      i += length;
      continue;
    }
    const char c = window.at(i);
    if (c == '-' && i > label &&
        (window.at(i + 1) == '-' || window.at(i + 1) == '_' || letter(i + 1) > 0)) {
      ++i;
      continue;
    }
    if (i == label || i - label > 63) break;
    last_label = label;
    ++labels;
    if (c != '.') break;
    label = i + 1;
    if (letter(label) == 0) break;
    i = label;
  }
  if (i - at > kMaxDomain || labels < 2) return 0;
  const std::string_view top = window.text(last_label, i);
  if (top.size() < 2 || top.size() > 24) return 0;
  const bool punycode = top.starts_with("xn--");
  if (!punycode && !std::ranges::all_of(top, [](char c) { return is(c, kAlpha | kHigh); }))
    return 0;
  std::array<char, 24> lowered{};
  std::ranges::transform(top, lowered.begin(), lower);
  if (std::ranges::find(kNotDomains, std::string_view(lowered.data(), top.size())) !=
      std::end(kNotDomains)) {
    return 0;
  }
  return window.at(i) == '_' ? 0 : i;
}

}

Found match_email(const Window& window, size_t at) {
  size_t start = at;
  while (start > 0 && at - start <= kMaxLocal) {
    const size_t letter =
        is(window.before(start), kLocal) ? 1 : letter_at_end(window.behind(start, 3));
    if (letter == 0) break;
    start -= letter;
  }
  if (at - start > kMaxLocal) return std::nullopt;
  while (start < at &&
         (window.at(start) == '\'' || window.at(start) == '.' || window.at(start) == '%'))
    ++start;
  if (start == at || window.before(at) == '.') return std::nullopt;
  const std::string_view local = window.text(start, at);
  if (local.find("..") != std::string_view::npos) return std::nullopt;
  if (std::ranges::none_of(local, [](char c) { return is(c, kAlnum | kHigh); }))
    return std::nullopt;
  const char before = window.before(start);
  // The user of a URL ("ssh://git@host") or of a remote ("git@host:path") is no mailbox.
  if (before == '/' && start >= 2 && window.before(start - 1) == '/') return std::nullopt;
  const size_t end = domain_end(window, at + 1);
  if (end == 0) return std::nullopt;
  if (window.at(end) == ':' &&
      (is(window.at(end + 1), kAlpha) || window.at(end + 1) == '/' || window.at(end + 1) == '~'))
    return std::nullopt;
  return Hit{start, end, PiiClass::Email, ""};
}

Found match_url_password(const Window& window, size_t at) {
  size_t start = at;
  const auto part = [](char c) {
    return (is(c, kAlnum | kLocal | kBase64) && c != '/') || c == '!' || c == '*' || c == '~' ||
           c == '^';
  };
  while (start > 0 && at - start <= kMaxPassword && part(window.before(start))) --start;
  if (start == 0 || window.before(start) != ':' || at - start < 6 || at - start > kMaxPassword)
    return std::nullopt;
  size_t user = start - 1;
  while (user > 0 && start - user <= 40 && (is(window.before(user), kLocal))) --user;
  if (user < 3 || window.before(user) != '/' || window.before(user - 1) != '/' ||
      window.before(user - 2) != ':')
    return std::nullopt;
  if (!is(window.at(at + 1), kAlnum)) return std::nullopt;
  const std::string_view password = window.text(start, at);
  const bool mixed =
      std::ranges::any_of(password, [](char c) { return is(c, kDigit) || is(c, kUpper); });
  if (!mixed || std::ranges::all_of(password, [](char c) { return is(c, kUpper) || c == '_'; }))
    return std::nullopt;
  return Hit{start, at, PiiClass::HighEntropy, "url_password"};
}

}
