#include "mvm/protect/value.h"

#include <algorithm>

#include "mvm/protect/restore.h"

#include "letters.h"

namespace mvm::protect {
namespace {

struct Collect final : ScanSink {
  std::vector<Finding> findings;
  void clean(std::string_view) override {}
  void found(const Finding& finding, std::string_view) override { findings.push_back(finding); }
};

// Findings of the detectors that a pattern of the user's own has not taken, and those.
std::vector<Finding> merged(std::vector<Finding> findings,
                            const std::vector<PatternSet::Match>& matches) {
  for (const auto& match : matches) {
    std::erase_if(findings, [&](const Finding& finding) {
      return finding.offset < match.offset + match.length &&
             match.offset < finding.offset + finding.length;
    });
    findings.push_back({PiiClass::Custom, match.offset, match.length, match.name});
  }
  std::ranges::sort(findings, {}, &Finding::offset);
  return findings;
}

int hex_value(char c) { return is(c, kDigit) ? c - '0' : lower(c) - 'a' + 10; }

Decoded url_decoded(std::string_view raw, bool plus_is_blank) {
  Decoded out;
  const bool plain = raw.find('%') == raw.npos && (!plus_is_blank || raw.find('+') == raw.npos);
  if (plain) {
    out.text = raw;
    return out;
  }
  for (size_t i = 0; i < raw.size(); ++i) {
    out.at.push_back(static_cast<uint32_t>(i));
    if (raw[i] == '%' && i + 2 < raw.size() && is_hex(raw[i + 1]) && is_hex(raw[i + 2])) {
      out.text += static_cast<char>(hex_value(raw[i + 1]) * 16 + hex_value(raw[i + 2]));
      i += 2;
    } else {
      out.text += raw[i] == '+' && plus_is_blank ? ' ' : raw[i];
    }
  }
  out.at.push_back(static_cast<uint32_t>(raw.size()));
  return out;
}

// Only what would mean something else is escaped.
std::string url_written(const std::string& text, bool form) {
  constexpr std::string_view kSafe = "-._~@:!$'()*,";
  std::string out;
  for (const char c : text) {
    if (is(c, kAlnum) || kSafe.find(c) != kSafe.npos)
      out += c;
    else if (c == ' ' && form)
      out += '+';
    else
      out += escaped({&c, 1}, Escaping::Url);
  }
  return out;
}

std::optional<std::string> rewritten_piece(ValueScanner& scanner, std::string_view label,
                                           std::string_view raw, UrlText kind,
                                           const Replace& replace) {
  const Decoded decoded = url_decoded(raw, kind == UrlText::Form);
  const auto changes = scanner.look(label, decoded.text, replace);
  if (changes.empty()) return std::nullopt;
  return applied(raw, decoded, changes, [&](const std::string& text, bool was_escaped) {
    if (kind == UrlText::Header) return was_escaped ? escaped(text, Escaping::Url) : text;
    return url_written(text, kind == UrlText::Form);
  });
}

std::string decoded_label(std::string_view raw) {
  constexpr size_t kMaxLabel = 64;
  return url_decoded(raw.substr(0, 3 * kMaxLabel), true).text.substr(0, kMaxLabel);
}

}

std::vector<Change> ValueScanner::look(std::string_view label, std::string_view value,
                                       const Replace& replace) {
  Collect collect;
  const std::string before = label.empty() ? "" : std::string(label) + ": ";
  const size_t skip = before.size();
  scanner_.whole(before, value, collect);
  std::vector<Finding>& findings = collect.findings;
  std::erase_if(findings, [&](const Finding& finding) { return finding.offset < skip; });
  for (Finding& finding : findings) finding.offset -= skip;
  if (detectors_.patterns) findings = merged(std::move(findings), detectors_.patterns->find(value));
  std::vector<Change> changes;
  for (const Finding& finding : findings)
    if (auto put = replace(finding, value.substr(finding.offset, finding.length)))
      changes.push_back({finding.offset, finding.length, std::move(*put)});
  return changes;
}

std::optional<std::string> ValueScanner::rewritten(std::string_view label, std::string_view value,
                                                   const Replace& replace) {
  const auto changes = look(label, value, replace);
  if (changes.empty()) return std::nullopt;
  return applied(value, {}, changes, [](const std::string& text, bool) { return text; });
}

std::string applied(
    std::string_view raw, const Decoded& decoded, const std::vector<Change>& changes,
    const std::function<std::string(const std::string& text, bool escaped)>& written) {
  std::string out;
  size_t done = 0;
  for (const Change& change : changes) {
    const size_t begin = decoded.begin_of(change.offset);
    const size_t end = decoded.begin_of(change.offset + change.length);
    out += raw.substr(done, begin - done);
    out += written(change.text, end - begin != change.length);
    done = end;
  }
  out += raw.substr(done);
  return out;
}

std::optional<std::string> rewritten_url_text(ValueScanner& scanner, std::string_view label,
                                              std::string_view text, UrlText kind,
                                              const Replace& replace) {
  if (kind != UrlText::Path) return rewritten_piece(scanner, label, text, kind, replace);
  std::string out;
  bool changed = false;
  std::string before(label);
  while (true) {
    const size_t slash = text.find('/');
    const std::string_view segment = text.substr(0, slash);
    const auto put = rewritten_piece(scanner, before, segment, kind, replace);
    changed = changed || put;
    out += put ? std::string_view(*put) : segment;
    before = decoded_label(segment);
    if (slash == text.npos) break;
    out += '/';
    text.remove_prefix(slash + 1);
  }
  if (!changed) return std::nullopt;
  return out;
}

std::optional<std::string> rewritten_pairs(ValueScanner& scanner, std::string_view pairs,
                                           const Replace& replace) {
  std::string out;
  bool changed = false;
  const auto put = [&](std::string_view label, std::string_view raw) {
    const auto text = rewritten_piece(scanner, label, raw, UrlText::Form, replace);
    changed = changed || text;
    out += text ? std::string_view(*text) : raw;
  };
  while (true) {
    const size_t end = pairs.find('&');
    const std::string_view pair = pairs.substr(0, end);
    const size_t equals = pair.find('=');
    put({}, pair.substr(0, equals));
    if (equals != pair.npos) {
      out += '=';
      put(decoded_label(pair.substr(0, equals)), pair.substr(equals + 1));
    }
    if (end == pairs.npos) break;
    out += '&';
    pairs.remove_prefix(end + 1);
  }
  if (!changed) return std::nullopt;
  return out;
}

}
