#include "mvm/policy/authorities.h"

#include "mvm/base/ip.h"
#include "mvm/base/text.h"

namespace mvm::policy {

std::optional<AuthorityRule> parse_authority(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  const std::string_view host = text.substr(0, equals);
  AuthorityRule rule;
  rule.file = text.substr(equals + 1);
  if (rule.file.empty() || rule.file.find('\0') != rule.file.npos) return std::nullopt;
  if (host == "*") return rule;
  if (IpAddress::parse(host)) return std::nullopt;  // it would match no server: they go by name
  rule.host = HostPattern::parse(host);
  return rule.host ? std::optional(std::move(rule)) : std::nullopt;
}

std::optional<std::string> authority_complaint(std::string_view text) {
  if (parse_authority(text)) return std::nullopt;
  return "\"" + printable(text, 200) +
         "\" is not a host and a file, such as *.corp.example=/etc/ssl/corp.pem";
}

std::optional<std::string> placed_authority_complaint(std::string_view text) {
  if (auto complaint = authority_complaint(text)) return complaint;
  if (parse_authority(text)->file.starts_with('/')) return std::nullopt;
  return "\"" + printable(text, 200) + "\" has no absolute path";
}

}
