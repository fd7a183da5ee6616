#pragma once
// What a user may decide about a sandbox, before it is known where each decision comes from.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/proto/network.h"
#include "mvm/proto/secrets.h"

namespace mvm::config {

// One source of settings: a manifest, the environment, the command line, or the defaults. A member
// without a value was not decided there.
struct Settings {
  std::optional<std::string> name;
  std::optional<std::string> image;
  std::optional<std::string> flake;
  std::optional<std::string> flake_profile;
  std::optional<std::string> kernel;
  std::optional<std::string> workdir;
  std::optional<std::string> user;
  std::optional<std::string> hostname;
  std::optional<std::string> profile;
  std::optional<uint64_t> cpus;
  std::optional<uint64_t> memory;          // bytes
  std::optional<uint64_t> disk;            // bytes
  std::optional<uint64_t> disk_bandwidth;  // bytes a second; 0: no limit
  std::optional<uint64_t> disk_iops;       // requests a second; 0: no limit
  std::optional<uint64_t> boot_timeout_ms;
  std::optional<bool> huge_pages;
  std::optional<uint64_t> watchdog_ms;
  std::optional<bool> healthcheck;
  std::optional<bool> ephemeral;
  // Limits; 0: none.
  std::optional<uint64_t> wall_clock_ms;
  std::optional<uint64_t> pids;
  std::optional<uint64_t> output;  // bytes
  std::optional<uint64_t> ttl_ms;
  std::optional<uint64_t> idle_timeout_ms;
  std::optional<uint64_t> retention_ms;
  // The network. Lists of several sources add up.
  std::optional<bool> network_enabled;
  std::optional<std::string> network_preset;
  std::optional<std::string> network_mode;
  std::optional<std::string> network_inspect;
  std::optional<uint64_t> network_mtu;
  std::optional<uint64_t> network_proxy_port;
  std::optional<uint64_t> network_ask_timeout_ms;
  // Limits of it; 0: none.
  std::optional<uint64_t> network_flows;
  std::optional<uint64_t> network_flows_per_second;
  std::optional<uint64_t> network_queries_per_second;
  std::optional<uint64_t> network_names_per_zone;
  std::optional<uint64_t> network_send_bandwidth;
  std::optional<uint64_t> network_receive_bandwidth;
  std::optional<uint64_t> network_total;
  // Milliseconds.
  std::optional<uint64_t> network_first_bytes_ms;
  std::optional<uint64_t> network_connect_ms;
  std::optional<uint64_t> network_handshake_ms;
  std::optional<uint64_t> network_idle_ms;
  std::optional<uint64_t> network_http_idle_ms;
  std::optional<uint64_t> network_half_closed_ms;
  std::vector<std::string> allow_hosts;
  std::vector<std::string> allow_cidr;
  std::vector<std::string> allow_endpoints;
  std::vector<std::string> resolvers;
  std::vector<std::string> upstream_ca;
  std::vector<proto::NetworkRoute> routes;
  std::vector<std::string> ports;  // published: proto/ports.h; of several sources they add up
  // Use of AI; limits of 0 are none.
  std::optional<bool> ai_metering;
  std::optional<std::string> ai_on_unknown;
  std::optional<bool> ai_reserve;
  std::optional<bool> ai_inject_stream_usage;
  std::vector<std::string> ai_providers;
  std::vector<std::string> ai_prices;
  std::vector<std::string> ai_budgets;
  std::optional<uint64_t> ai_max_total_tokens;
  std::optional<uint64_t> ai_max_input_tokens;
  std::optional<uint64_t> ai_max_output_tokens;
  std::optional<uint64_t> ai_max_requests;
  std::optional<std::string> ai_max_cost;
  std::map<std::string, proto::SecretRule> secrets;  // by their names
  // Personal data.
  std::optional<std::string> pii_mode;
  std::vector<std::string> pii_categories;
  std::vector<std::string> pii_rules;
  std::vector<std::string> pii_patterns;
  std::vector<std::string> pii_bypass;
  std::optional<std::string> pii_on_mismatch;
  std::optional<std::string> pii_on_undecodable;
  std::optional<uint64_t> pii_token_lifetime_ms;
  std::optional<uint64_t> pii_token_window_ms;
  std::optional<bool> pii_token_once;
  std::optional<uint64_t> pii_max_value;
  std::optional<uint64_t> pii_max_growth;
  std::optional<std::string> audit_sync;
  // The builder, where flakes are built.
  std::optional<std::string> builder_image;
  std::optional<uint64_t> builder_cpus;    // 0: as many as the host has
  std::optional<uint64_t> builder_memory;  // bytes
  std::optional<uint64_t> builder_disk;    // bytes
  std::optional<std::string> builder_network;
  std::vector<std::string> builder_allow_hosts;
  std::optional<uint64_t> build_timeout_ms;  // 0: none
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> labels;
  bool operator==(const Settings&) const = default;
};

}
