#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mvm/cli/context.h"

namespace mvm::cli {

// One thing the host needs, tried.
struct Check {
  enum class Level { Ok, Warn, Fail };
  Level level = Level::Ok;
  std::string name;
  std::string detail;
  std::string way_out;  // "" when nothing is to be done
};
std::string_view level_name(Check::Level level);

}
