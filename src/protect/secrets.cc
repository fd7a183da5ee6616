// Secrets without a provider: JSON Web Tokens, private keys, values that words call a secret.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "mvm/protect/scanner.h"

#include "context.h"
#include "detectors.h"
#include "letters.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

// Base64url of the start of a JWT's header, enough to see what it is.
std::string decoded_start(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text.substr(0, 256)) {
    const int value = is(c, kUpper)   ? c - 'A'
                      : is(c, kLower) ? c - 'a' + 26
                      : is(c, kDigit) ? c - '0' + 52
                      : c == '-'      ? 62
                                      : 63;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>((bits >> have) & 0xff);
  }
  return out;
}

// Bits a character, of the text's own frequencies.
double entropy(std::string_view text) {
  std::array<unsigned, 256> counts{};
  for (const char c : text) ++counts[static_cast<uint8_t>(c)];
  double bits = 0;
  const double size = static_cast<double>(text.size());
  for (const unsigned count : counts)
    if (count > 0) bits -= count / size * std::log2(count / size);
  return bits;
}

bool body_character(char c) {
  return is(c, kAlnum | kBase64 | kWordMark) || c == '\n' || c == '\r' || c == ' ' || c == '\t' ||
         c == '\\' || c == ':' || c == ',' || c == '"' || c == '\'' || c == '.' || c == '(' ||
         c == ')';
}

// "PKIX_RSA_PSS_2048_SHA256": a constant of a program.
bool constant_name(std::string_view text) {
  size_t marks = 0;
  for (const char c : text) {
    if (!is(c, kUpper | kDigit) && c != '_') return false;
    marks += c == '_' ? 1 : 0;
  }
  return marks >= 2;
}

// How public keys of P-256, RSA and Ed25519 begin (RFC 5280 §4.1.2.7), in base64.
bool public_key(std::string_view text) {
  for (const std::string_view begin : {"MFkwEwYHKoZIzj0CAQ", "MIIBIjANBgkqhkiG9w0BAQEF",
                                       "MIICIjANBgkqhkiG9w0BAQEF", "MCowBQYDK2Vw"})
    if (text.starts_with(begin)) return true;
  return false;
}

}

Found match_jwt(const Window& window, const Token& token) {
  if (!token.text.starts_with("eyJ")) return std::nullopt;
  size_t at = token.start;
  std::array<size_t, 5> ends{};
  size_t parts = 0;
  for (;;) {
    while (at - token.start < kMaxValue && is(window.at(at), kAlnum | kWordMark)) ++at;
    if (at - token.start >= kMaxValue) return std::nullopt;
    ends.at(parts++) = at;
    if (parts == ends.size() || window.at(at) != '.') break;
    ++at;
  }
  // Signed: three parts, the last empty where nothing signs. Encrypted: five.
  if (parts < 3 || parts == 4) return std::nullopt;
  const std::string header = decoded_start(window.text(token.start, ends[0]));
  if (header.find("\"alg\"") == std::string::npos && header.find("\"enc\"") == std::string::npos)
    return std::nullopt;
  return Hit{token.start, ends.at(parts - 1), PiiClass::Jwt, ""};
}

Found match_private_key(const Window& window, size_t at) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  constexpr std::string_view kKey = "PRIVATE KEY";
  if (!window.starts_with(at, kBegin)) return std::nullopt;
  size_t i = at + kBegin.size();
  const size_t label = i;
  while (i - label < 48 && (is(window.at(i), kUpper | kDigit) || window.at(i) == ' ')) ++i;
  if (!window.starts_with(i, "-----")) return std::nullopt;
  if (window.text(label, i).find(kKey) == std::string_view::npos) return std::nullopt;
  i += 5;
  // A body of some length: the bare marker in a program's source is no key.
  size_t run = 0;
  bool body = false;
  for (; i - at < kMaxValue; ++i) {
    const char c = window.at(i);
    if (c == '-' && window.starts_with(i, "-----END ")) {
      const size_t end_label = i + 9;
      size_t end = end_label;
      while (end - end_label < 48 && (is(window.at(end), kUpper | kDigit) || window.at(end) == ' '))
        ++end;
      if (!window.starts_with(end, "-----")) return std::nullopt;
      if (!body) return std::nullopt;
      return Hit{at, end + 5, PiiClass::PrivateKey, ""};
    }
    if (!body_character(c) || (c == '-' && window.starts_with(i, kBegin))) break;
    run = is(c, kAlnum | kBase64) ? run + 1 : 0;
    body = body || run >= 40;
  }
  if (!body) return std::nullopt;
  return Hit{at, i, PiiClass::PrivateKey, ""};
}

bool is_uuid(std::string_view text) noexcept {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < 36; ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hex(text[i])) return false;
  }
  return true;
}

Found match_secret_value(const Window& window, const Token& token) {
  constexpr size_t kLongest = 256;
  const auto part = [](char c) { return is(c, kAlnum | kWordMark) || c == '+' || c == '/'; };
  size_t start = token.start;
  while (start > 0 && token.start - start < 48 && part(window.before(start))) --start;
  size_t end = token.end;
  while (end - start <= kLongest && part(window.at(end))) ++end;
  while (end - start <= kLongest && window.at(end) == '=') ++end;
  if (end - start > kLongest) return std::nullopt;
  // Quotes and colons beyond ASCII, and the words of scripts without spaces.
  const bool foreign =
      is(window.before(start), kHigh) && letter_at_end(window.behind(start, 3)) == 0;
  const char before = window.before(start);
  if (before != '"' && before != '\'' && before != '=' && before != ' ' && before != ':' &&
      before != '`' && !foreign)
    return std::nullopt;
  const char after = window.at(end);
  if (after == '.' && is(window.at(end + 1), kAlnum)) return std::nullopt;
  if (after == '(' || after == ':' || after == '[' || after == '@' || after == '$' ||
      after == '%' || after == '{' || after == '<' || after == '>')
    return std::nullopt;
  const std::string_view text = window.text(start, end);
  size_t digits = 0;
  size_t uppers = 0;
  size_t lowers = 0;
  size_t slashes = 0;
  bool hex = true;
  for (const char c : text) {
    digits += is(c, kDigit) ? 1 : 0;
    uppers += is(c, kUpper) ? 1 : 0;
    lowers += is(c, kLower) ? 1 : 0;
    slashes += c == '/' || c == '-' || c == '_' ? 1 : 0;
    hex = hex && is_hex(c);
  }
  if (digits < 2 || uppers + lowers < 2 || slashes * 5 > text.size() || is_uuid(text) ||
      constant_name(text) || public_key(text))
    return std::nullopt;
  if (hex ? text.size() < 32 : (uppers == 0 || lowers == 0) && digits * 6 < text.size())
    return std::nullopt;
  if (entropy(text) < (hex ? 3.0 : 3.5)) return std::nullopt;
  // "exports.X509KeyExtension = X509KeyExtension"
  constexpr std::string_view kSet = " = ";
  const std::string_view set = window.behind(start, text.size() + kSet.size());
  if (set.starts_with(text) && set.ends_with(kSet)) return std::nullopt;
  // The value of something: quoted, or behind '=' or ':', so that words next to a sentence's "key"
  // are not values.
  const uint32_t says = context_before(window, start);
  if ((says & kSaysSecret) == 0) return std::nullopt;
  const std::string_view behind = window.behind(start, 4);
  if (behind.find_first_of("=:\"'`") == std::string_view::npos && !foreign &&
      !behind.ends_with("er "))
    return std::nullopt;
  return Hit{start, end, PiiClass::HighEntropy, ""};
}

}
