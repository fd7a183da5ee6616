#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mvm::guest {

inline constexpr size_t kMaxModuleList = size_t{64} * 1024;

// The lines of a module list: a path each, in load order. Blank lines do not count.
std::vector<std::string> parse_module_list(std::string_view text);

// Loads the kernel modules that /modules.list names, if there is such a file. A module that is
// loaded already or finds no hardware is fine; one that cannot be loaded is an Error.
void load_modules();

}
