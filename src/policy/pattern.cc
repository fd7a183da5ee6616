#include "mvm/policy/pattern.h"

#include <algorithm>

#include "mvm/base/text.h"

namespace mvm::policy {

std::optional<HostPattern> HostPattern::parse(std::string_view text) {
  HostPattern pattern;
  pattern.below_ = text.starts_with("*.");
  if (pattern.below_) text.remove_prefix(2);
  const auto name = dns::Name::parse(text);
  // No rule is for the root or, by a star, for a whole top-level domain; and what some reader takes
  // for an address is no name.
  if (!name || *name == dns::Name() || name->ends_in_number() ||
      (pattern.below_ && name->text().find('.') == std::string::npos))
    return std::nullopt;
  pattern.name_ = *name;
  return pattern;
}

bool HostPattern::matches(const dns::Name& host) const noexcept {
  if (!below_) return host == name_;
  const std::string_view ours = as_text(name_.wire());
  const std::string_view theirs = as_text(host.wire());
  if (theirs.size() <= ours.size() || !theirs.ends_with(ours)) return false;
  // The tail must begin at a label: lengths are bytes like any other ("\x07example" in a label).
  const size_t tail = theirs.size() - ours.size();
  size_t at = 0;
  while (at < tail) at += static_cast<unsigned char>(theirs[at]) + size_t{1};
  return at == tail;
}

bool HostPattern::nearly_matches(const dns::Name& host) const noexcept {
  HostPattern other = *this;
  other.below_ = !below_;
  return other.matches(host);
}

std::string HostPattern::text() const { return (below_ ? "*." : "") + name_.text(); }

// ---- paths --------------------------------------------------------------------------------------

static int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

static std::optional<std::string> decode_segment(std::string_view raw) {
  std::string out;
  for (size_t at = 0; at < raw.size(); ++at) {
    if (raw[at] != '%') {
      out += raw[at];
      continue;
    }
    if (raw.size() - at < 3) return std::nullopt;
    const int high = hex_value(raw[at + 1]);
    const int low = hex_value(raw[at + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return out;
}

// Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates.
static bool is_utf8(std::string_view text) noexcept {
  for (size_t at = 0; at < text.size();) {
    const auto byte = [&](size_t i) {
      return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    const unsigned lead = byte(0);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (length == 0 || lead > 0xf4) return false;
    for (size_t i = 1; i < length; ++i)
      if ((byte(i) & 0xc0) != 0x80) return false;
    if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) ||
        (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))
      return false;
    at += length;
  }
  return true;
}

// What one server takes for a separator, a parameter or an escape and another for a letter.
static bool is_ambiguous(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f || c == '/' || c == '\\' || c == '%' || c == ';';
}

static bool is_plain_segment(std::string_view segment) noexcept {
  return segment != "." && segment != ".." && std::ranges::none_of(segment, is_ambiguous) &&
         is_utf8(segment);
}

// As they are written, without those that say "here": "/a/./b/." is "/a/b/".
static std::vector<std::string_view> raw_segments(std::string_view target) {
  auto raw = split(target.substr(1, target.find('?') - 1), '/');
  if (raw.back() == ".") raw.back() = {};
  std::erase(raw, ".");
  return raw;
}

std::optional<Path> normal_path(std::string_view target) {
  if (!target.starts_with('/') || target.find('#') != target.npos) return std::nullopt;
  Path path;
  for (const std::string_view raw : raw_segments(target)) {
    if (path.size() == kMaxPathSegments) return std::nullopt;
    if (!path.empty() && path.back().empty()) return std::nullopt;  // "//"
    auto segment = decode_segment(raw);
    if (!segment || !is_plain_segment(*segment)) return std::nullopt;
    path.push_back(std::move(*segment));
  }
  return path;
}

std::string canonical_target(std::string_view target) {
  if (target.find("/.") == target.npos || !normal_path(target)) return std::string(target);
  std::string out;
  for (const std::string_view raw : raw_segments(target)) out.append(1, '/').append(raw);
  return out.append(target.substr(std::min(target.find('?'), target.size())));
}

std::optional<PathPattern> PathPattern::parse(std::string_view text) {
  if (!text.starts_with('/') || text.find_first_of("?#") != text.npos) return std::nullopt;
  PathPattern pattern;
  pattern.rest_ = text.ends_with("/**");
  if (pattern.rest_) text.remove_suffix(3);
  if (text.empty()) return pattern;  // "/**"
  const auto path = normal_path(text);
  // "/a//**": no path has an empty segment before another.
  if (!path || (pattern.rest_ && path->back().empty())) return std::nullopt;
  // A star is a whole segment, or it is a slip: it would not mean what it seems to.
  const auto raw = split(text.substr(1), '/');
  if (std::ranges::find(raw, ".") != raw.end()) return std::nullopt;  // nobody means that
  for (size_t i = 0; i < path->size(); ++i) {
    if (raw[i] != "*" && raw[i].find('*') != std::string_view::npos) return std::nullopt;
    pattern.segments_.push_back({raw[i] == "*", (*path)[i]});
  }
  return pattern;
}

PathPattern PathPattern::exactly(const Path& path) {
  PathPattern pattern;
  for (const std::string& segment : path) pattern.segments_.push_back({false, segment});
  return pattern;
}

bool PathPattern::matches(const Path& path) const noexcept {
  if (rest_ ? path.size() < segments_.size() : path.size() != segments_.size()) return false;
  return std::equal(segments_.begin(), segments_.end(), path.begin(),
                    [](const Segment& ours, const std::string& theirs) {
                      return ours.any ? !theirs.empty() : ours.text == theirs;
                    });
}

std::string PathPattern::text() const {
  std::string out;
  for (const Segment& segment : segments_) {
    out += '/';
    if (segment.any) {
      out += '*';
      continue;
    }
    for (const char c : segment.text) {
      const auto byte = static_cast<unsigned char>(c);
      constexpr std::string_view kDigits = "0123456789ABCDEF";
      // Encoded where it would not be read back as itself: '*' is ours, "'" ends a shell's word,
      // the others are the URL's.
      if (byte > 0x20 && byte < 0x7f &&
          std::string_view("*?#\"'<>^`{|}").find(c) == std::string_view::npos)
        out += c;
      else
        out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return out + (rest_ ? "/**" : "");
}

}
