#pragma once
// What a user may decide about a sandbox, before it is known where each decision comes from.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/proto/network.h"

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
  std::optional<uint64_t> network_mtu;
  std::vector<std::string> allow_hosts;
  std::vector<std::string> allow_cidr;
  std::vector<std::string> allow_endpoints;
  std::vector<std::string> resolvers;
  std::vector<proto::NetworkRoute> routes;
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
