#include "mvm/http/url.h"

#include "mvm/base/text.h"
#include "mvm/http/message.h"

namespace mvm::http {

static int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out.push_back(text[at]);
      continue;
    }
    if (text.size() - at < 3) return std::nullopt;
    const int high = digit_value(text[at + 1]);
    const int low = digit_value(text[at + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    at += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
        c == '.' || c == '_' || c == '~') {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return out;
}

std::optional<Target> parse_target(std::string_view target) {
  if (!is_target(target) || target.front() != '/') return std::nullopt;
  const size_t mark = target.find('?');
  Target parsed;
  for (const std::string_view raw : split(target.substr(1, mark - 1), '/')) {
    auto segment = percent_decode(raw);
    if (!segment || segment->empty() || *segment == "." || *segment == "..") return std::nullopt;
    parsed.path.push_back(std::move(*segment));
  }
  if (mark == std::string_view::npos || mark + 1 == target.size()) return parsed;
  for (const std::string_view pair : split(target.substr(mark + 1), '&')) {
    if (parsed.query.size() == kMaxQueryParameters) return std::nullopt;
    const size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals));
    auto value =
        equals == std::string_view::npos ? std::string() : percent_decode(pair.substr(equals + 1));
    if (!name || !value || name->empty()) return std::nullopt;
    parsed.query.emplace_back(std::move(*name), std::move(*value));
  }
  return parsed;
}

}
