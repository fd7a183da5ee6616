#include "memory_use.h"

#include <chrono>
#include <string>

#include "mvm/agent/connection.h"
#include "mvm/base/text.h"
#include "mvm/proto/memory_use.h"
#include "mvm/sys/file.h"

namespace mvm::cli {

// What a process of ours has resident, pages of the host's reserve included; nothing when it has
// gone.
static std::optional<uint64_t> resident_bytes(int64_t pid) {
  constexpr size_t kMaxStatus = 16384;
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  if (pid == 0 || !sys::exists(path)) return std::nullopt;
  std::optional<uint64_t> bytes;
  try {
    const std::string text = sys::read_text_file(path, kMaxStatus);
    for (const auto line : split(text, '\n')) {
      if (!line.starts_with("VmRSS:") && !line.starts_with("HugetlbPages:")) continue;
      const auto digits = line.find_first_of("0123456789");
      if (digits == line.npos) continue;
      const auto kib = parse_u64(line.substr(digits, line.find(" kB") - digits));
      if (kib) bytes = bytes.value_or(0) + *kib * 1024;
    }
  } catch (const Error&) {
    return std::nullopt;  // it ended between the two
  }
  return bytes;
}

api::MemoryUse memory_use(const api::Sandbox& sandbox) {
  constexpr std::chrono::milliseconds kPatience{5000};
  api::MemoryUse use;
  use.resident = resident_bytes(sandbox.monitor_pid);
  try {
    auto connection = agent::Connection::connect(sandbox.control_socket);
    const Bytes result = connection.request(proto::MemoryRequest{}.encode(), kPatience);
    const auto told = proto::MemoryUse::decode(result);
    if (!told) return use;
    use.guest_total = told->guest_total;
    use.guest_free = told->guest_free;
    use.guest_available = told->guest_available;
    use.guest_caches = told->guest_caches;
    use.balloon = told->balloon;
    use.released = told->released;
  } catch (const Error&) {
    return use;
  }
  return use;
}

}
