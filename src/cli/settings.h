#pragma once
// From the places where settings stand to one decision.

#include <optional>
#include <string>
#include <vector>

#include "mvm/cli/context.h"
#include "mvm/config/manifest.h"

namespace mvm::cli {

struct Decided {
  config::Resolved resolved;
  std::optional<std::string> manifest;  // its path, when one was read
};

// Flags over variables over the manifest over the defaults. `manifest` names a file that must be
// there; without it ./mvm.toml is read when there is one.
Decided decide(const Context& context, const config::Settings& flags,
               const std::vector<std::string>& env_files,
               const std::optional<std::string>& manifest);

// The lines of each file in turn; a later one wins.
std::map<std::string, std::string> read_env_files(const Context& context,
                                                  const std::vector<std::string>& files);

// With the preset's rules in it, which may come from this host's files.
api::SandboxSpec spec_of(const Context& context, const config::Settings& settings);
proto::NetworkConfig network_of(const Context& context, const config::Settings& settings);

// The last component of the folder, as a name; throws Error{Invalid} when it cannot be one.
std::string folder_name(const Context& context);

}
