#include "mvm/policy/authorities.h"

#include "mvm/base/ip.h"

namespace mvm::policy {

std::optional<AuthorityRule> parse_authority(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  const std::string_view host = text.substr(0, equals);
  AuthorityRule rule;
  rule.file = text.substr(equals + 1);
  if (!rule.file.starts_with('/') || rule.file.find('\0') != rule.file.npos) return std::nullopt;
  if (host == "*") return rule;
  if (IpAddress::parse(host)) return std::nullopt;  // it would match no server: they go by name
  rule.host = HostPattern::parse(host);
  return rule.host ? std::optional(std::move(rule)) : std::nullopt;
}

std::optional<std::string> authority_complaint(std::string_view text) {
  if (parse_authority(text)) return std::nullopt;
  return "\"" + std::string(text) +
         "\" is not a host and the absolute path of a file, such as "
         "*.corp.example=/etc/ssl/corp.pem";
}

}
