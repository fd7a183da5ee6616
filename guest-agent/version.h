#pragma once
#include <string_view>

namespace mvm::guest {
extern const std::string_view kAgentVersion;
}
