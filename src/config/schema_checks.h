#pragma once
// What one value must look like: a complaint that goes behind the key's name, or nothing.

#include <optional>
#include <string>
#include <string_view>

namespace mvm::config {

using Complaint = std::optional<std::string>;

Complaint check_name(std::string_view name, std::string_view value);
Complaint check_image(std::string_view name, std::string_view value);
Complaint check_kernel(std::string_view name, std::string_view value);
Complaint check_directory(std::string_view name, std::string_view value);
Complaint check_user(std::string_view name, std::string_view value);
Complaint check_hostname(std::string_view name, std::string_view value);
Complaint check_profile(std::string_view name, std::string_view value);
Complaint check_preset(std::string_view name, std::string_view value);
Complaint check_flake(std::string_view name, std::string_view value);
Complaint check_flake_profile(std::string_view name, std::string_view value);
Complaint check_builder_network(std::string_view name, std::string_view value);
Complaint check_mode(std::string_view name, std::string_view value);
Complaint check_inspect(std::string_view name, std::string_view value);
Complaint check_audit_sync(std::string_view name, std::string_view value);
Complaint check_allowed_host(std::string_view name, std::string_view value);
Complaint check_allowed_range(std::string_view name, std::string_view value);
Complaint check_allowed_endpoint(std::string_view name, std::string_view value);
Complaint check_resolver(std::string_view name, std::string_view value);
Complaint check_upstream_authority(std::string_view name, std::string_view value);
Complaint check_port(std::string_view name, std::string_view value);
Complaint check_on_unknown(std::string_view name, std::string_view value);
Complaint check_provider(std::string_view name, std::string_view value);
Complaint check_price(std::string_view name, std::string_view value);
Complaint check_ai_budget(std::string_view name, std::string_view value);
Complaint check_cost(std::string_view name, std::string_view value);
Complaint check_pii_mode(std::string_view name, std::string_view value);
Complaint check_pii_mismatch(std::string_view name, std::string_view value);
Complaint check_pii_undecodable(std::string_view name, std::string_view value);
Complaint check_pii_text(std::string_view name, std::string_view value);

}
