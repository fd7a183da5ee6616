#include "schema_checks.h"

#include <algorithm>
#include <initializer_list>

#include "mvm/base/text.h"
#include "mvm/config/schema.h"
#include "mvm/meter/compile.h"
#include "mvm/policy/authorities.h"
#include "mvm/policy/compile.h"
#include "mvm/proto/ports.h"

namespace mvm::config {

Complaint check_name(std::string_view, std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (const auto complaint = name_complaint(value)) return "is no valid name: " + *complaint;
  return std::nullopt;
}

Complaint check_image(std::string_view, std::string_view value) {
  if (value.empty()) return "must not be empty; `mvm image ls` lists images";
  if (value.size() > 255) return "must have at most 255 characters";
  for (const char c : value)
    if (c <= ' ' || c == 0x7f) return "must have no blanks or control characters";
  return std::nullopt;
}

Complaint check_kernel(std::string_view, std::string_view value) {
  if (value.find('/') == value.npos) return check_name({}, value);
  if (value.front() != '/') return "must be a name or an absolute path";
  if (value.size() > 4095 || value.find('\0') != value.npos) return "is no valid path";
  return std::nullopt;
}

Complaint check_directory(std::string_view, std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (value.front() != '/') return "must be an absolute path, such as \"/work\"";
  if (value.size() > 4095) return "must have at most 4095 characters";
  if (value.find('\0') != value.npos) return "must have no NUL character";
  return std::nullopt;
}

Complaint check_user(std::string_view, std::string_view value) {
  if (value.size() > 65) return "must have at most 65 characters";
  for (const char c : value)
    if (c <= ' ' || c == 0x7f || c == '/') return "must be a user name, a uid, or uid:gid";
  return std::nullopt;
}

Complaint check_hostname(std::string_view, std::string_view value) {
  if (value.empty()) return std::nullopt;
  if (value.size() > 63) return "must have at most 63 characters";
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (!std::all_of(value.begin(), value.end(), fine) || value.front() == '-' || value.back() == '-')
    return "must be letters, digits and inner '-'";
  return std::nullopt;
}

Complaint check_profile(std::string_view, std::string_view value) {
  if (value == "dev" || value == "sealed") return std::nullopt;
  return "must be \"dev\" or \"sealed\", not '" + printable(value, 40) + "'";
}

Complaint check_preset(std::string_view, std::string_view value) {
  for (const std::string_view known : {"none", "registries", "dev", "agent"})
    if (value == known) return std::nullopt;
  return "must be \"none\", \"registries\", \"dev\" or \"agent\", not '" + printable(value, 40) +
         "'";
}

Complaint check_flake(std::string_view, std::string_view value) {
  if (value.size() > 2048) return "must have at most 2048 characters";
  for (const char c : value)
    if ((c >= 0 && c < ' ') || c == 0x7f) return "must have no control characters";
  return std::nullopt;
}

Complaint check_flake_profile(std::string_view, std::string_view value) {
  if (value.size() > 256) return "must have at most 256 characters";
  for (const char c : value)
    if (c <= ' ' || c == 0x7f || c == '#') return "must be the name of a package of the flake";
  return std::nullopt;
}

Complaint check_builder_network(std::string_view, std::string_view value) {
  if (value == "nix" || value == "none") return std::nullopt;
  return "must be \"nix\" or \"none\", not '" + printable(value, 40) + "'";
}

Complaint check_mode(std::string_view, std::string_view value) {
  if (value == "enforce" || value == "audit") return std::nullopt;
  return "must be \"enforce\" or \"audit\", not '" + printable(value, 40) + "'";
}

Complaint check_inspect(std::string_view, std::string_view value) {
  if (value == "needed" || value == "all") return std::nullopt;
  return "must be \"needed\" or \"all\", not '" + printable(value, 40) + "'";
}

Complaint check_audit_sync(std::string_view, std::string_view value) {
  if (value == "normal" || value == "strict") return std::nullopt;
  return "must be \"normal\" or \"strict\", not '" + printable(value, 40) + "'";
}

Complaint check_allowed_host(std::string_view, std::string_view value) {
  return policy::host_complaint(value);
}
Complaint check_allowed_range(std::string_view, std::string_view value) {
  return policy::range_complaint(value);
}
Complaint check_allowed_endpoint(std::string_view, std::string_view value) {
  return policy::endpoint_complaint(value);
}
Complaint check_resolver(std::string_view, std::string_view value) {
  return policy::resolver_complaint(value);
}
Complaint check_upstream_authority(std::string_view, std::string_view value) {
  return policy::authority_complaint(value);
}

Complaint check_port(std::string_view, std::string_view value) {
  return proto::published_port_complaint(value);
}

Complaint check_on_unknown(std::string_view, std::string_view value) {
  return meter::on_unknown_complaint(value);
}
Complaint check_provider(std::string_view, std::string_view value) {
  return meter::provider_complaint(value);
}
Complaint check_price(std::string_view, std::string_view value) {
  return meter::price_complaint(value);
}
Complaint check_ai_budget(std::string_view, std::string_view value) {
  return meter::budget_complaint(value);
}
Complaint check_cost(std::string_view, std::string_view value) {
  return meter::cost_complaint(value);
}

static Complaint one_of(std::string_view value, std::initializer_list<std::string_view> words) {
  std::string known;
  for (const std::string_view word : words) {
    if (value == word) return std::nullopt;
    known += (known.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  }
  return "must be one of " + known + ", not '" + printable(value, 40) + "'";
}
Complaint check_pii_mode(std::string_view, std::string_view value) {
  return one_of(value, {"disabled", "detect", "tokenize", "redact", "refuse"});
}
Complaint check_pii_mismatch(std::string_view, std::string_view value) {
  return one_of(value, {"keep", "redact", "deny"});
}
Complaint check_pii_undecodable(std::string_view, std::string_view value) {
  return one_of(value, {"deny", "allow"});
}
// What it means is known where the detectors are (mvm/privacy/rules.h).
Complaint check_pii_text(std::string_view, std::string_view value) {
  if (value.empty()) return "must not be empty";
  if (value.size() > proto::kMaxPiiText)
    return "must have at most " + std::to_string(proto::kMaxPiiText) + " bytes";
  return std::nullopt;
}

}
