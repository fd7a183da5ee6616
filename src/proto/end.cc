#include "mvm/proto/end.h"

#include <algorithm>
#include <array>

namespace mvm::proto {

// In the order of the enum.
static constexpr std::array<std::string_view, 11> kEndReasons{
    "stopped",      "exited",     "rebooted",   "panic",        "killed",       "crashed",
    "start_failed", "host_fault", "time_limit", "idle_timeout", "out_of_memory"};

std::string_view end_reason_name(EndReason reason) {
  return kEndReasons.at(static_cast<size_t>(reason));
}

std::optional<EndReason> end_reason_from_name(std::string_view name) {
  const auto* const found = std::find(kEndReasons.begin(), kEndReasons.end(), name);
  if (found == kEndReasons.end()) return std::nullopt;
  return static_cast<EndReason>(found - kEndReasons.begin());
}

}
