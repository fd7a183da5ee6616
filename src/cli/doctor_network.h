#pragma once
// Why this host makes no network for a sandbox, and the way out.

#include <string>

namespace mvm::cli {

struct Obstacle {
  std::string what;
  std::string way_out;
};

// `failure` is what making one said. Each thing that it takes is tried by itself, in the order in
// which it is needed; the first that fails is the obstacle. `root` goes in front of the paths of
// files that are read.
Obstacle network_obstacle(const std::string& failure, const std::string& root = "");

// Modules of the kernel that the network's rules take, and that this one neither has built in, nor
// loaded, nor could load. Empty where that cannot be told (a container without /lib/modules).
std::string missing_modules(const std::string& release, const std::string& root = "");

}
