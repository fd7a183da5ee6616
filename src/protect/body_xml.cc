// XML: runs of text, called by their element's name, and the values of attributes, called by
// theirs; character references are decoded. A DOCTYPE that declares something could hide anything
// behind an entity, and is not decoded.

#include <algorithm>
#include <array>
#include <charconv>

#include "mvm/protect/restore.h"

#include "bodies.h"
#include "letters.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_name(char c) { return is(c, kAlnum | kHigh | kWordMark) || c == '.' || c == ':'; }

// What "&…;" at the front of `text` stands for, and its length; 0 when it is none.
size_t reference(std::string_view text, std::string& out) {
  constexpr size_t kLongest = 12;
  const size_t end = text.substr(0, kLongest).find(';');
  if (end == text.npos) return 0;
  std::string_view name = text.substr(1, end - 1);
  struct Named {
    std::string_view name;
    char character;
  };
  static constexpr std::array<Named, 5> kNamed = {
      {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
  for (const Named& known : kNamed)
    if (known.name == name) {
      out += known.character;
      return end + 1;
    }
  if (!name.starts_with('#')) return 0;
  name.remove_prefix(1);
  const int base = name.starts_with('x') ? 16 : 10;
  if (base == 16) name.remove_prefix(1);
  uint32_t code = 0;
  const auto [at, error] = std::from_chars(name.data(), name.data() + name.size(), code, base);
  if (name.empty() || error != std::errc() || at != name.data() + name.size() || code == 0 ||
      code > kLastCodePoint || is_surrogate(code))
    return 0;
  append_utf8(out, code);
  return end + 1;
}

Decoded xml_decoded(std::string_view raw) {
  Decoded out;
  if (raw.find('&') == raw.npos) {
    out.text = raw;
    return out;
  }
  for (size_t i = 0; i < raw.size();) {
    const size_t before = out.text.size();
    size_t used = raw[i] == '&' ? reference(raw.substr(i), out.text) : 0;
    if (used == 0) {
      out.text += raw[i];
      used = 1;
    }
    out.at.resize(out.at.size() + (out.text.size() - before), static_cast<uint32_t>(i));
    i += used;
  }
  out.at.push_back(static_cast<uint32_t>(raw.size()));
  return out;
}

class XmlRewriter final : public BodyRewriter {
 public:
  explicit XmlRewriter(const BodyRules& rules)
      : scanner_(rules.detectors), replace_(rules.replace), max_held_(rules.max_held) {}

  bool feed(std::string_view bytes, std::string& out) override {
    for (const char c : bytes) {
      if (!in_markup_ && c == '<') {
        put(element_, held_, out);
        held_.clear();
        in_markup_ = true;
      }
      held_ += c;
      if (held_.size() > max_held_) return false;
      if (!in_markup_) continue;
      if (quote_ != '\0') {
        if (c == quote_) quote_ = '\0';
        continue;
      }
      if (is_tag() && (c == '"' || c == '\'')) quote_ = c;
      if (c != '>' && c != '[') continue;
      if (held_.starts_with("<!DOCTYPE") && c == '[') return false;
      if (c == '>' && markup_ends()) {
        flush_markup(out);
        held_.clear();
        in_markup_ = false;
      }
    }
    return true;
  }
  bool finish(std::string& out) override {
    if (in_markup_) return false;
    put(element_, held_, out);
    return true;
  }

 private:
  bool is_tag() const { return held_.size() > 1 && held_[1] != '!' && held_[1] != '?'; }
  bool markup_ends() const {
    if (held_.starts_with("<!--")) return held_.size() >= 7 && held_.ends_with("-->");
    if (held_.starts_with("<![CDATA[")) return held_.ends_with("]]>");
    if (held_.starts_with("<?")) return held_.ends_with("?>");
    return true;
  }

  void put(std::string_view label, std::string_view raw, std::string& out) {
    if (raw.empty()) return;
    const Decoded decoded = xml_decoded(raw);
    const auto changes = scanner_.look(label, decoded.text, replace_);
    out += applied(raw, decoded, changes,
                   [](const std::string& text, bool) { return escaped(text, Escaping::Html); });
  }

  void flush_markup(std::string& out) {
    if (is_tag()) return flush_tag(out);
    // Here nothing is a reference.
    const auto changed = scanner_.rewritten(element_, held_, replace_);
    out += changed ? *changed : held_;
  }

  void flush_tag(std::string& out) {
    const std::string_view tag = held_;
    size_t at = 1;
    const bool closes = tag[at] == '/';
    if (closes) ++at;
    const size_t name_at = at;
    while (at < tag.size() && is_name(tag[at])) ++at;
    const std::string_view name = tag.substr(name_at, at - name_at);
    // Text behind an element's end belongs to none that we remember.
    element_ = closes ? "" : local_name(name);
    out += tag.substr(0, at);
    while (at < tag.size()) {
      const size_t attribute_at = at;
      while (at < tag.size() && (is_white(tag[at]) || tag[at] == '/')) ++at;
      const size_t label_at = at;
      while (at < tag.size() && is_name(tag[at])) ++at;
      const std::string_view label = tag.substr(label_at, at - label_at);
      while (at < tag.size() && (is_white(tag[at]) || tag[at] == '=')) ++at;
      if (at < tag.size() && (tag[at] == '"' || tag[at] == '\'')) {
        const size_t end = std::min(tag.find(tag[at], at + 1), tag.size());
        out += tag.substr(attribute_at, at + 1 - attribute_at);
        put(local_name(label), tag.substr(at + 1, end - at - 1), out);
        at = end;
      } else if (at < tag.size()) {
        out += tag.substr(attribute_at, at + 1 - attribute_at);
        ++at;
        continue;
      }
      if (at < tag.size()) out += tag[at++];
    }
  }

  static std::string local_name(std::string_view name) {
    constexpr size_t kMaxLabel = 64;
    const size_t colon = name.rfind(':');
    return std::string(name.substr(colon == name.npos ? 0 : colon + 1).substr(0, kMaxLabel));
  }

  ValueScanner scanner_;
  Replace replace_;
  size_t max_held_;
  std::string held_;  // a run of text, or markup from its '<' on
  std::string element_;
  bool in_markup_ = false;
  char quote_ = '\0';
};

}

std::unique_ptr<BodyRewriter> xml_rewriter(const BodyRules& rules) {
  return std::make_unique<XmlRewriter>(rules);
}

}
