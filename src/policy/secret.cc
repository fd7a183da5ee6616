#include "mvm/policy/secret.h"

#include <algorithm>
#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/compile.h"
#include "mvm/proto/cbor.h"

namespace mvm::policy {
namespace {

constexpr std::array<std::string_view, kSecretPlaces> kPlaces{"header", "basic", "query",
                                                              "path",   "form",  "body"};
constexpr size_t kMaxName = 56;  // "secret:NAME" is the id of a rule in the audit log
constexpr size_t kMaxPrefix = 32;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// RFC 9110 §5.6.2
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string quoted(std::string_view text) { return "\"" + printable(text, 80) + "\""; }

std::vector<std::string> words(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (const std::string_view word : split(text, separator))
    if (!word.empty()) out.emplace_back(word);
  return out;
}

[[noreturn]] void refuse(const std::string& where, const std::string& complaint) {
  throw Error(Kind::Invalid, where + ": " + complaint);
}
void check(const std::string& where, const std::optional<std::string>& complaint) {
  if (complaint) refuse(where, *complaint);
}

SecretHeader header_of(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  SecretHeader header{std::string(text.substr(0, colon)), ""};
  if (colon < text.size()) {
    text.remove_prefix(colon + 1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    header.scheme = text;
  }
  return header;
}

}

std::string_view secret_place_word(SecretPlace place) noexcept {
  return kPlaces.at(static_cast<size_t>(place));
}

std::optional<SecretPlace> parse_secret_place(std::string_view word) noexcept {
  const auto found = std::ranges::find(kPlaces, word);
  if (found == kPlaces.end()) return std::nullopt;
  return static_cast<SecretPlace>(found - kPlaces.begin());
}

bool SecretBinding::has(SecretPlace place) const noexcept {
  return std::ranges::find(places, place) != places.end();
}

bool SecretBinding::covers(const dns::Name& host, uint16_t port) const noexcept {
  return std::ranges::any_of(hosts, [&](const HostRule& rule) {
    if (!rule.host.matches(host)) return false;
    if (rule.ports.empty()) return port == 80 || port == 443;
    return std::ranges::find(rule.ports, port) != rule.ports.end();
  });
}

bool is_credential_field(std::string_view name) noexcept {
  std::string lowered(name.substr(0, kMaxName));
  std::ranges::transform(lowered, lowered.begin(), lower);
  if (lowered.starts_with("sec-")) return false;
  if (lowered == "authorization" || lowered == "cookie") return true;
  return std::ranges::any_of(
      std::array<std::string_view, 11>{"api-key", "apikey", "access-key", "subscription-key",
                                       "private-key", "auth-key", "token", "secret", "password",
                                       "credential", "x-auth-"},
      [&](std::string_view part) { return lowered.find(part) != lowered.npos; });
}

// ---- words

std::optional<std::string> secret_name_complaint(std::string_view text) {
  const bool fine =
      !text.empty() && text.size() <= kMaxName && !is_digit(text.front()) &&
      std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (fine) return std::nullopt;
  return quoted(text) + " is not the name of a variable: letters, digits and '_', at most " +
         std::to_string(kMaxName);
}

std::optional<std::string> secret_reference_complaint(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text.size() > proto::kMaxSecretText || text.find('\0') != text.npos)
    return "is longer than " + std::to_string(proto::kMaxSecretText) + " bytes, or has a zero byte";
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, std::min(colon, text.size()));
  const std::string_view rest = colon == text.npos ? "" : text.substr(colon + 1);
  if (kind == "env" || kind == "stored") {
    if (auto complaint = secret_name_complaint(rest)) return complaint;
    return std::nullopt;
  }
  if ((kind == "file" || kind == "keyring" || kind == "cmd") && !rest.empty()) return std::nullopt;
  // What stands there may be the value itself: it is not shown.
  return "must say where the value is: \"env:NAME\", \"file:PATH\", \"keyring:NAME\", "
         "\"cmd:COMMAND\" or \"stored:NAME\"; a value itself belongs to `mvm secret set`";
}

std::optional<std::string> secret_place_complaint(std::string_view text) {
  if (parse_secret_place(text)) return std::nullopt;
  return quoted(text) + " is none of header, basic, query, path, form, body";
}

std::optional<std::string> secret_header_complaint(std::string_view text) {
  const SecretHeader header = header_of(text);
  const bool has_scheme = text.find(':') != text.npos;
  if (is_token(header.name) && has_scheme == is_token(header.scheme)) return std::nullopt;
  return quoted(text) + " is not a field such as \"X-Api-Key\" or \"Authorization: Bearer\"";
}

std::optional<std::string> secret_prefix_complaint(std::string_view text) {
  if (text.size() <= kMaxPrefix && std::ranges::all_of(text, [](char c) {
        return is_letter(c) || is_digit(c) || c == '_' || c == '-';
      }))
    return std::nullopt;
  return "must be at most " + std::to_string(kMaxPrefix) + " letters, digits, '_' and '-'";
}

std::optional<std::string> secret_misuse_complaint(std::string_view text) {
  if (text.empty() || text == "refuse" || text == "end") return std::nullopt;
  return quoted(text) + " is neither \"refuse\" nor \"end\"";
}

std::optional<std::string> secret_unreadable_complaint(std::string_view text) {
  if (text.empty() || text == "refuse" || text == "pass") return std::nullopt;
  return quoted(text) + " is neither \"refuse\" nor \"pass\"";
}

std::optional<std::string> secret_value_complaint(const SecretBinding& binding,
                                                  std::string_view value) {
  if (value.size() < proto::kMinSecretValue)
    return "its value has fewer than " + std::to_string(proto::kMinSecretValue) +
           " bytes, so it could not be told from other text";
  if (value.size() > proto::kMaxSecretValue)
    return "its value is larger than " + format_size(proto::kMaxSecretValue);
  if (value.find('\0') != value.npos || !proto::is_utf8(value))
    return "its value is no text (UTF-8, without zero bytes)";
  const bool is_line =
      std::ranges::none_of(value, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
  if (!is_line && binding.has(SecretPlace::Header))
    return "its value has line breaks or control characters, which no header field can hold; "
           "`places` can leave out \"header\"";
  return std::nullopt;
}

// ---- rules

proto::SecretRule with_provider(proto::SecretRule rule) {
  const SecretProvider* provider = find_secret_provider(rule.name);
  if (provider == nullptr) return rule;
  // Whoever names other hosts has another server in mind, which may want the key elsewhere.
  const bool its_hosts = rule.hosts.empty();
  if (its_hosts) rule.hosts = words(provider->hosts, ' ');
  if (its_hosts && rule.places.empty()) {
    rule.places = words(provider->places, ' ');
    if (rule.headers.empty()) rule.headers = words(provider->headers, '|');
  }
  if (rule.prefix.empty()) rule.prefix = provider->prefix;
  return rule;
}

SecretBinding compile_secret(const proto::SecretRule& rule) {
  check("secrets", secret_name_complaint(rule.name));
  const std::string where = "secrets." + rule.name;
  check(where + ".from", secret_reference_complaint(rule.from));
  check(where + ".prefix", secret_prefix_complaint(rule.prefix));
  check(where + ".on_misuse", secret_misuse_complaint(rule.on_misuse));
  check(where + ".on_unreadable", secret_unreadable_complaint(rule.on_unreadable));
  if (rule.hosts.empty())
    refuse(where + ".hosts", "which hosts may it go to? For example hosts = [\"api.example.com\"]");
  if (std::max({rule.hosts.size(), rule.places.size(), rule.headers.size()}) >
      proto::kMaxSecretWords)
    refuse(where, "a list has at most " + std::to_string(proto::kMaxSecretWords) + " entries");
  SecretBinding out;
  out.name = rule.name;
  for (const std::string& host : rule.hosts) {
    check(where + ".hosts", host_complaint(host));
    out.hosts.push_back(*parse_host_rule(host));
  }
  for (const std::string& place : rule.places) {
    check(where + ".places", secret_place_complaint(place));
    if (const auto known = parse_secret_place(place); !out.has(*known))
      out.places.push_back(*known);
  }
  if (out.places.empty()) out.places = {SecretPlace::Header, SecretPlace::Basic};
  if (!rule.headers.empty() && !out.has(SecretPlace::Header))
    refuse(where + ".headers", "there are some, but \"header\" is none of its places");
  for (const std::string& header : rule.headers) {
    check(where + ".headers", secret_header_complaint(header));
    out.headers.push_back(header_of(header));
  }
  out.prefix = rule.prefix;
  out.plaintext = rule.plaintext;
  out.end_on_misuse = rule.on_misuse == "end";
  out.pass_unreadable = rule.on_unreadable == "pass";
  out.require = rule.require;
  return out;
}

std::vector<SecretBinding> compile_secrets(const std::vector<proto::SecretRule>& rules) {
  if (rules.size() > proto::kMaxSecrets)
    refuse("secrets", "there are more than " + std::to_string(proto::kMaxSecrets));
  std::vector<SecretBinding> out;
  for (const proto::SecretRule& rule : rules) {
    out.push_back(compile_secret(rule));
    if (std::ranges::count(out, rule.name, &SecretBinding::name) > 1)
      refuse("secrets." + rule.name, "there are two rules for this variable; one would not hold");
  }
  return out;
}

std::optional<proto::SecretRule> parse_secret_flag(std::string_view text) {
  proto::SecretRule rule;
  const size_t at = std::min(text.find('@'), text.size());
  rule.name = text.substr(0, at);
  if (secret_name_complaint(rule.name)) return std::nullopt;
  if (at == text.size()) return rule;
  for (const std::string_view host : split(text.substr(at + 1), ',')) {
    if (host_complaint(host) || rule.hosts.size() == proto::kMaxSecretWords) return std::nullopt;
    rule.hosts.emplace_back(host);
  }
  return rule;
}

std::vector<InspectRule> inspected_for(const std::vector<SecretBinding>& bindings) {
  std::vector<InspectRule> out;
  for (const SecretBinding& binding : bindings)
    for (const HostRule& rule : binding.hosts)
      out.push_back(
          {rule.host, rule.ports.empty() ? std::vector<uint16_t>{80, 443} : rule.ports, true});
  return out;
}

}
