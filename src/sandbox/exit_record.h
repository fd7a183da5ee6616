#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mvm/proto/control.h"

namespace mvm::sandbox {

// Writes exit.json ({"reason", "detail", "ended_at_unix_ms"}) into a data directory, atomically and
// durably: whoever supervises finds it even when nobody was there at the end. Throws SystemError.
void write_exit_record(int data_directory, const proto::SandboxEnd& end);

// Writes boot.json: how long the guest took to be ready, and the exits it cost, by reason. For
// benchmarks and the curious.
void write_boot_record(int data_directory, uint64_t ready_ms,
                       const std::vector<std::pair<std::string, uint64_t>>& counters);

}
