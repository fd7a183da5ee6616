#include "mvm/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "mvm/base/checked.h"

namespace mvm {

static bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::optional<std::string> name_complaint(std::string_view name) {
  if (name.empty()) return "a name cannot be empty";
  if (name.size() > kMaxName)
    return "the name has " + std::to_string(name.size()) + " characters; the most is " +
           std::to_string(kMaxName);
  if (!is_alnum(name.front())) return "a name starts with a letter or digit";
  for (const char c : name)
    if (!is_alnum(c) && c != '.' && c != '_' && c != '-')
      return "the name has the character '" + printable(std::string_view(&c, 1)) +
             "'; letters, digits, '.', '_' and '-' are allowed";
  return std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string_view> candidates) {
  size_t best = std::max<size_t>(2, word.size() / 3) + 1;
  std::optional<std::string> found;
  for (const auto candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = std::string(candidate);
    }
  }
  return found;
}

std::optional<uint64_t> parse_u64(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const auto number = parse_u64(text.substr(0, digits));
  if (!number) return std::nullopt;
  const std::string_view unit = text.substr(digits);
  static constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
  for (size_t power = 0; power < kUnits.size(); ++power) {
    std::string_view rest = unit;
    if (power > 0) {
      if (rest.empty() || (rest.front() & ~0x20) != kUnits.at(power).front()) continue;
      rest.remove_prefix(1);
      if (!rest.empty() && rest.front() == 'i') rest.remove_prefix(1);
    }
    if (rest == "B" || rest == "b") rest = {};
    if (rest.empty()) return checked_mul<uint64_t>(*number, uint64_t{1} << (10 * power));
  }
  return std::nullopt;
}

std::string format_size(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t power = 0;
  uint64_t tenths = bytes;
  uint64_t rest = 0;
  while (tenths >= 1024 && power + 1 < kUnits.size()) {
    rest = tenths % 1024;
    tenths /= 1024;
    ++power;
  }
  std::string out = std::to_string(tenths);
  if (rest * 10 / 1024 != 0) out += "." + std::to_string(rest * 10 / 1024);
  return out + " " + kUnits.at(power);
}

std::optional<uint64_t> parse_duration_ms(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (const auto seconds = parse_u64(text)) return checked_mul<uint64_t>(*seconds, 1000U);
  uint64_t total = 0;
  while (!text.empty()) {
    size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
    const auto number = parse_u64(text.substr(0, digits));
    if (!number) return std::nullopt;
    text.remove_prefix(digits);
    size_t letters = 0;
    while (letters < text.size() && text[letters] >= 'a' && text[letters] <= 'z') ++letters;
    const auto unit = text.substr(0, letters);
    text.remove_prefix(letters);
    uint64_t scale = 0;
    if (unit == "ms") scale = 1;
    if (unit == "s") scale = 1000;
    if (unit == "m") scale = 60'000;
    if (unit == "h") scale = 3'600'000;
    if (unit == "d") scale = 86'400'000;
    if (scale == 0) return std::nullopt;
    const auto part = checked_mul<uint64_t>(*number, scale);
    if (!part) return std::nullopt;
    const auto sum = checked_add<uint64_t>(total, *part);
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

std::string format_duration_ms(uint64_t milliseconds) {
  if (milliseconds < 1000) return std::to_string(milliseconds) + "ms";
  const uint64_t seconds = milliseconds / 1000;
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600)
    return std::to_string(seconds / 60) + "m" + std::to_string(seconds % 60) + "s";
  if (seconds < 86400)
    return std::to_string(seconds / 3600) + "h" + std::to_string(seconds % 3600 / 60) + "m";
  return std::to_string(seconds / 86400) + "d" + std::to_string(seconds % 86400 / 3600) + "h";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(bytes.size() * 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    out[2 * i] = kDigits[std::to_integer<size_t>(bytes[i] >> 4)];
    out[2 * i + 1] = kDigits[std::to_integer<size_t>(bytes[i] & std::byte{15})];
  }
  return out;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) {
    if (c >= ' ' && c != 0x7f) {
      out += c;
    } else {
      out += "\\x" + hex(std::as_bytes(std::span(&c, 1)));
    }
  }
  if (text.size() > limit) out += "…";
  return out;
}

}
