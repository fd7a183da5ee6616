// Values from text, and back into it.

#include <algorithm>
#include <array>

#include "mvm/base/text.h"
#include "mvm/config/schema.h"
#include "mvm/policy/secret.h"

#include "schema_checks.h"

namespace mvm::config {
namespace {

// It is not shown: it may be a value by mistake.
Complaint add_secret(std::string_view text, std::map<std::string, proto::SecretRule>& secrets) {
  const auto rule = policy::parse_secret_flag(text);
  if (!rule)
    return "must be NAME, NAME@HOST or NAME@HOST,HOST; a value belongs to `mvm secret set`";
  if (!secrets.emplace(rule->name, *rule).second)
    return "has two rules for " + rule->name + "; one of them would not hold";
  return std::nullopt;
}

std::string format_kept(const Key& key, uint64_t value) {
  if (key.type == Type::Size) return format_size(value);
  if (key.type == Type::Duration) return format_duration_ms(value);
  return std::to_string(value);
}

Complaint set_number(const Key& key, std::optional<uint64_t> Settings::* member,
                     std::string_view text, Settings& settings) {
  std::optional<uint64_t> value;
  std::string_view what = "an integer";
  if (key.type == Type::Size) {
    value = parse_size(text);
    what = "a size such as \"768M\" or \"2G\"";
  } else if (key.type == Type::Duration) {
    value = parse_duration_ms(text);
    what = "a duration such as \"30s\" or \"1m30s\"";
  } else {
    value = parse_u64(text);
  }
  if (!value) return "must be " + std::string(what) + ", not '" + printable(text, 40) + "'";
  if (*value < key.minimum || *value > key.maximum)
    return "must be from " + format_kept(key, key.minimum) + " to " +
           format_kept(key, key.maximum) + ", not " + format_kept(key, *value);
  if (*value % key.multiple != 0)
    return "must be a multiple of " + format_kept(key, key.multiple) + ", not " +
           std::to_string(*value) + " bytes";
  settings.*member = value;
  return std::nullopt;
}

Complaint set_boolean(std::optional<bool> Settings::* member, std::string_view text,
                      Settings& settings) {
  if (text != "true" && text != "false")
    return "must be true or false, not '" + printable(text, 40) + "'";
  settings.*member = text == "true";
  return std::nullopt;
}

// The shortest spelling that gives the same number back.
std::string written_size(uint64_t bytes) {
  static constexpr std::string_view kUnits = "KMGT";
  std::string unit;
  for (const char next : kUnits) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    unit = next;
  }
  return std::to_string(bytes) + unit;
}

std::string written_duration(uint64_t milliseconds) {
  if (milliseconds % 1000 != 0) return std::to_string(milliseconds) + "ms";
  return std::to_string(milliseconds / 1000) + "s";
}

}

Complaint env_complaint(std::string_view name, std::string_view value) {
  if (name.empty()) return "a variable needs a name";
  if (name.size() > 255) return "a variable's name has at most 255 characters";
  for (const char c : name)
    if (c == '=' || c <= ' ' || c == 0x7f)
      return "a variable's name has no '=', blanks or control characters";
  if (value.find('\0') != value.npos) return "a variable has no NUL character";
  if (value.size() > kMaxEnvValue)
    return "a variable has at most " + format_size(kMaxEnvValue) + ", not " +
           std::to_string(value.size()) + " bytes";
  return std::nullopt;
}

Complaint label_complaint(std::string_view name, std::string_view value) {
  if (auto complaint = name_complaint(name)) return "as a label: " + *complaint;
  if (value.size() > kMaxLabelValue)
    return "a label has at most " + std::to_string(kMaxLabelValue) + " bytes, not " +
           std::to_string(value.size());
  for (const char c : value)
    if ((c >= 0 && c < ' ') || c == 0x7f) return "a label has no control characters";
  return std::nullopt;
}

Complaint set_from_text(const Key& key, std::string_view text, Settings& settings) {
  if (const auto* number = std::get_if<std::optional<uint64_t> Settings::*>(&key.target))
    return set_number(key, *number, text, settings);
  if (const auto* flag = std::get_if<std::optional<bool> Settings::*>(&key.target))
    return set_boolean(*flag, text, settings);
  if (const auto* word = std::get_if<std::optional<std::string> Settings::*>(&key.target)) {
    if (key.check != nullptr)
      if (auto complaint = key.check(key.name, text)) return complaint;
    settings.** word = std::string(text);
    return std::nullopt;
  }
  if (const auto* list = std::get_if<std::vector<std::string> Settings::*>(&key.target)) {
    if (auto complaint = key.check(key.name, text)) return complaint;
    if ((settings.**list).size() == kMaxTableEntries)
      return "has more than " + std::to_string(kMaxTableEntries) + " entries";
    (settings.**list).emplace_back(text);
    return std::nullopt;
  }
  if (const auto* secrets =
          std::get_if<std::map<std::string, proto::SecretRule> Settings::*>(&key.target))
    return add_secret(text, settings.**secrets);
  return "is a table";
}

std::optional<std::string> written_value(const Key& key, const Settings& settings) {
  if (const auto* number = std::get_if<std::optional<uint64_t> Settings::*>(&key.target)) {
    const auto& value = settings.**number;
    if (!value) return std::nullopt;
    if (key.type == Type::Size) return '"' + written_size(*value) + '"';
    if (key.type == Type::Duration) return '"' + written_duration(*value) + '"';
    return std::to_string(*value);
  }
  if (const auto* flag = std::get_if<std::optional<bool> Settings::*>(&key.target)) {
    const auto& value = settings.**flag;
    if (!value) return std::nullopt;
    return *value ? "true" : "false";
  }
  if (const auto* word = std::get_if<std::optional<std::string> Settings::*>(&key.target)) {
    const auto& value = settings.**word;
    if (!value) return std::nullopt;
    return quoted(*value);
  }
  if (const auto* list = std::get_if<std::vector<std::string> Settings::*>(&key.target)) {
    std::string out = "[";
    for (const std::string& text : settings.**list)
      out += (out.size() > 1 ? ", " : "") + quoted(text);
    return out + "]";
  }
  return std::nullopt;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if ((c >= 0 && c < ' ') || c == 0x7f) {
      out += "\\u00" + hex(std::as_bytes(std::span(&c, 1)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}
