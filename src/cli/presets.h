#pragma once
// Rules to begin with, by name. What a preset admits stands in src/cli/presets, a file each,
// which travels inside the program.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::cli {

// Hosts that the host's package managers use; asked only when a preset wants them.
using PackageHosts = std::function<std::vector<std::string>()>;

// The rules of a preset, for allow_hosts, each once. Throws Error{Invalid} for a name of none.
std::vector<std::string> preset_hosts(std::string_view name, const PackageHosts& package_hosts);

// A preset's file, as it is in the tree.
std::string_view preset_text(std::string_view name);

}
