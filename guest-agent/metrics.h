#pragma once

#include <string>

#include "mvm/proto/metrics.h"

namespace mvm::guest {

// MemAvailable of /proc/meminfo, in bytes; nothing where the kernel does not say.
std::optional<uint64_t> available_memory();
// All but `commands`. `cgroup` is the commands' own, or empty. What cannot be found out is 0.
proto::Metrics collect_metrics(const std::string& cgroup);

}
