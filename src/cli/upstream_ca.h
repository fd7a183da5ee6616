#pragma once
// `upstream_ca` as a person writes it: the file may be below the folder where they write.

#include <string>
#include <vector>

#include "mvm/cli/context.h"

namespace mvm::cli {

// Makes each rule's file absolute: "~/" is their home, what is relative is below `folder`.
void place_authorities(const Context& context, const std::string& folder,
                       std::vector<std::string>& rules);
// Throws Error naming the rule when its file holds no certificates: before anything is started,
// which would find out only then.
void check_authorities(const std::vector<std::string>& rules);

}
