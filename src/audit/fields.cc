#include "mvm/audit/fields.h"

#include <algorithm>
#include <array>

namespace mvm::audit {

static constexpr std::string_view kInvalid = "invalid";

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_alnum(char c) { return is_digit(c) || is_lower(c) || is_upper(c); }

// `text` when it is of 1 to `most` characters that are alphanumeric or in `others`.
static std::string checked(std::string_view text, size_t most, std::string_view others) {
  const bool good =
      !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), [&](char c) {
        return is_alnum(c) || others.find(c) != others.npos;
      });
  return std::string(good ? text : kInvalid);
}

static std::string checked_id(std::string_view text) {
  const bool good = !text.empty() && text.size() <= 63 &&
                    std::all_of(text.begin(), text.end(),
                                [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
  return std::string(good ? text : kInvalid);
}

Name::Name(std::string_view text) : Text(checked(text, 128, "._:/@-")) {}
LogId::LogId(std::string_view text) : Text(checked_id(text)) {}
RunId::RunId(std::string_view text) : Text(checked_id(text)) {}
ClassName::ClassName(std::string_view text)
    : Text(text.empty() ? std::string() : checked(text, 32, "_")) {}
ModelName::ModelName(std::string_view text)
    : Text(text.empty() ? std::string() : checked(text, 80, "._:/@-")) {}
VariableName::VariableName(std::string_view text) : Text(checked(text, 64, "_")) {}

static std::string checked_rule(std::string_view text) {
  if (text.empty()) return {};
  std::string rule(text);
  std::replace(rule.begin(), rule.end(), ' ', '_');
  return checked(rule, 256, "._:/*@-%~&()+,=[]");
}
RuleId::RuleId(std::string_view text) : Text(checked_rule(text)) {}

static std::string checked_digest(std::string_view text) {
  const bool good = text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
                      return is_digit(c) || (c >= 'a' && c <= 'f');
                    });
  return std::string(good ? text : kInvalid);
}
DigestText::DigestText(std::string_view text) : Text(checked_digest(text)) {}

static std::string checked_host(std::string_view text) {
  constexpr size_t kMaxHost = 253;
  constexpr size_t kMaxLabel = 63;
  std::string out;
  size_t label = 0;
  if (text.size() > kMaxHost) return std::string(kInvalid);
  for (const char c : text) {
    if (c == '.') {
      if (label == 0) return std::string(kInvalid);
      label = 0;
    } else if (is_alnum(c) || c == '-' || c == '_') {
      if (++label > kMaxLabel) return std::string(kInvalid);
    } else {
      return std::string(kInvalid);
    }
    out += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (!out.empty() && label == 0) return std::string(kInvalid);
  return out;
}
HostName::HostName(std::string_view text) : Text(checked_host(text)) {}

static std::string checked_method(std::string_view text) {
  static constexpr std::array kKnown = std::to_array<std::string_view>(
      {"GET",        "HEAD",     "POST",   "PUT",    "DELETE",    "CONNECT", "OPTIONS", "TRACE",
       "PATCH",      "PROPFIND", "MKCOL",  "COPY",   "MOVE",      "LOCK",    "UNLOCK",  "REPORT",
       "MKACTIVITY", "CHECKOUT", "MERGE",  "SEARCH", "PROPPATCH", "A",       "AAAA",    "CNAME",
       "HTTPS",      "SVCB",     "MX",     "TXT",    "NS",        "SOA",     "PTR",     "SRV",
       "CAA",        "DS",       "DNSKEY", "TLSA",   "NAPTR",     "ANY"});
  if (text.empty()) return {};
  if (std::find(kKnown.begin(), kKnown.end(), text) != kKnown.end()) return std::string(text);
  constexpr std::string_view kType = "TYPE";
  if (text.starts_with(kType) && text.size() > 4 && text.size() <= 9 &&
      std::all_of(text.begin() + 4, text.end(), is_digit))
    return std::string(text);
  return "other";
}
Method::Method(std::string_view text) : Text(checked_method(text)) {}

// RFC 3986 §3.3 without ';', which begins what is left out, and with '%' as it came.
static bool is_path_character(char c) {
  constexpr std::string_view kOthers = "-._~!$&'()*+,=:@/%";
  return is_alnum(c) || kOthers.find(c) != kOthers.npos;
}

static std::string cleaned_path(std::string_view target) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  bool parameters = false;
  for (const char c : target.substr(0, target.find_first_of("?#"))) {
    if (c == '/') parameters = false;
    if (c == ';') parameters = true;
    if (parameters) continue;
    if (is_path_character(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

Path::Path(std::string_view target) {
  // Bounded before it is looked at: a target may be as long as a request's head may be.
  constexpr size_t kMaxTarget = 64 * 1024;
  std::string clean = cleaned_path(target.substr(0, kMaxTarget));
  if (clean.size() > kMax) {
    cut_from_ = clean.size();
    clean.resize(kMax);
  }
  set(std::move(clean));
}

}
