#pragma once
// The flags that limit one command: text to values of the protocol. The error of each is what
// stands behind the flag's name in a usage error: "must be ..., not 'x'".

#include <string>
#include <string_view>

#include "mvm/base/expected.h"
#include "mvm/proto/exec.h"

namespace mvm::cli {

// "nofile=1024:2048", "core=0", "stack=16M:unlimited"; one value is both limits.
Expected<proto::ResourceLimit, std::string> parse_rlimit(std::string_view text);
Expected<uint64_t, std::string> parse_memory_limit(std::string_view text);  // bytes
Expected<uint64_t, std::string> parse_process_limit(std::string_view text);
Expected<uint64_t, std::string> parse_cpu_limit(std::string_view text);  // thousandths of a CPU

}
