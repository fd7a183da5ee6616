// What a Content-Type says, and which form that is.

#include "mvm/protect/body.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mvm/protect/json.h"
#include "mvm/protect/multipart.h"

#include "bodies.h"
#include "letters.h"

namespace mvm::protect {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}
std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}
bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is(c, kAlnum) || kOthers.find(c) != kOthers.npos;
  });
}

// A parameter's value from the front of `text`; false when its quotes do not end.
bool take_value(std::string_view& text, std::string& value) {
  value.clear();
  if (!text.starts_with('"')) {
    const size_t end = text.find(';');
    value = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size()));
    return true;
  }
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text = trimmed(text.substr(i + 1));
      return text.empty() || text.front() == ';';
    }
    if (text[i] == '\\') ++i;
    if (i == text.size()) return false;
    value += text[i];
  }
  return false;
}

// Charsets in which ASCII is ASCII and nothing else is.
bool is_known_charset(std::string_view charset) {
  static constexpr std::array kKnown = std::to_array<std::string_view>(
      {"", "utf-8", "utf8", "us-ascii", "ascii", "latin1", "utf-16", "utf-16le", "utf-16be"});
  return std::ranges::find(kKnown, charset) != kKnown.end() || charset.starts_with("iso-8859-") ||
         charset.starts_with("windows-125");
}

bool is_textual(std::string_view type) {
  static constexpr std::array kTypes = std::to_array<std::string_view>(
      {"application/javascript", "application/ecmascript", "application/graphql", "application/sql",
       "application/x-sh", "application/yaml", "application/x-yaml", "application/toml",
       "application/x-www-form-urlencoded", "application/pem-certificate-chain", "message/rfc822",
       "message/http"});
  return type.starts_with("text/") || type.ends_with("+yaml") ||
         std::ranges::find(kTypes, type) != kTypes.end();
}

}

std::optional<MediaType> parse_media_type(std::string_view text) {
  MediaType out;
  text = trimmed(text);
  if (text.empty()) return out;
  const size_t end = text.find(';');
  out.type = lowered(trimmed(text.substr(0, end)));
  const size_t slash = out.type.find('/');
  if (slash == std::string::npos || !is_token(out.type.substr(0, slash)) ||
      !is_token(out.type.substr(slash + 1)))
    return std::nullopt;
  text.remove_prefix(std::min(end, text.size()));
  while (!text.empty()) {
    text = trimmed(text.substr(1));
    if (text.empty()) break;
    const size_t equals = text.find('=');
    if (text.front() == ';') continue;
    if (equals == text.npos) return std::nullopt;
    const std::string name = lowered(trimmed(text.substr(0, equals)));
    text = trimmed(text.substr(equals + 1));
    std::string value;
    if (!is_token(name) || !take_value(text, value)) return std::nullopt;
    // One that is there twice is read either way.
    std::string* into = nullptr;
    if (name == "charset") into = &out.charset;
    if (name == "boundary") into = &out.boundary;
    if (into == nullptr) continue;
    if (!into->empty()) return std::nullopt;
    *into = name == "charset" ? lowered(value) : value;
  }
  return out;
}

BodyForm body_form(const MediaType& type) {
  const std::string_view name = type.type;
  if (!is_known_charset(type.charset)) return BodyForm::Opaque;
  if (name == "application/json" || name.ends_with("+json") || name == "text/json" ||
      name == "application/x-ndjson" || name == "application/ndjson" ||
      name == "application/jsonl" || name == "application/json-seq" ||
      name == "application/x-json-stream" || name == "application/json5")
    return BodyForm::Json;
  if (name == "application/x-www-form-urlencoded") return BodyForm::Fields;
  if (name == "multipart/form-data" || name == "multipart/mixed" || name == "multipart/related" ||
      name == "multipart/alternative")
    return BodyForm::Multipart;
  if (name == "application/xml" || name == "text/xml" || name.ends_with("+xml"))
    return BodyForm::Xml;
  return is_textual(name) || name.empty() ? BodyForm::Text : BodyForm::Opaque;
}

static std::unique_ptr<BodyRewriter> rewriter_of(BodyForm form, const BodyRules& rules) {
  switch (form) {
    case BodyForm::Json:
      return std::make_unique<JsonRewriter>(rules.detectors, rules.replace, rules.max_held);
    case BodyForm::Fields:
      return fields_rewriter(rules);
    case BodyForm::Xml:
      return xml_rewriter(rules);
    case BodyForm::Text:
      return text_rewriter(rules.detectors, rules.replace);
    case BodyForm::Multipart:
    case BodyForm::Opaque:
      break;
  }
  return nullptr;
}

namespace {

// Of no type: the first letter tells whether it is JSON, however it is cut. What may stand before
// that, a byte order mark and white space, passes.
class GuessingRewriter final : public BodyRewriter {
 public:
  explicit GuessingRewriter(const BodyRules& rules) : rules_(rules) {}

  bool feed(std::string_view bytes, std::string& out) override {
    if (inner_) return inner_->feed(bytes, out);
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    first_ += bytes;
    size_t at = 0;
    if (!begun_) {
      if (first_.size() < kMark.size() && kMark.starts_with(first_)) return true;
      at = first_.starts_with(kMark) ? kMark.size() : 0;
      begun_ = true;
    }
    at = std::min(first_.find_first_not_of(" \t\r\n", at), first_.size());
    out.append(first_, 0, at);
    first_.erase(0, at);
    if (first_.empty()) return true;
    const char c = first_.front();
    inner_ = rewriter_of(c == '{' || c == '[' ? BodyForm::Json : BodyForm::Text, rules_);
    return inner_->feed(std::exchange(first_, {}), out);
  }
  bool finish(std::string& out) override {
    out += first_;
    return !inner_ || inner_->finish(out);
  }

 private:
  BodyRules rules_;
  std::unique_ptr<BodyRewriter> inner_;
  std::string first_;
  bool begun_ = false;
};

}

std::unique_ptr<BodyRewriter> body_rewriter(const MediaType& type, const BodyRules& rules,
                                            unsigned depth) {
  const BodyForm form = body_form(type);
  if (form == BodyForm::Opaque) return nullptr;
  if (form == BodyForm::Multipart) {
    const auto boundary = MultipartReader::boundary(type);
    if (depth == kMaxMultipartDepth || !boundary) return nullptr;
    return multipart_rewriter(*boundary, rules, depth + 1);
  }
  if (type.type.empty())
    return unicode_rewriter(type.charset, std::make_unique<GuessingRewriter>(rules));
  return unicode_rewriter(type.charset, rewriter_of(form, rules));
}

std::unique_ptr<BodyRewriter> body_rewriter(const MediaType& type, const BodyRules& rules) {
  return body_rewriter(type, rules, 0);
}

}
