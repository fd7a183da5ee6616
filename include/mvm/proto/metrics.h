#pragma once
// What a sandbox says of itself: hostile like all it says, good for showing and no basis for
// decisions about limits, which the host measures itself.

#include <cstdint>
#include <optional>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr std::string_view kMetricsVerb = "metrics";  // End ok with Metrics
struct Metrics {
  uint64_t uptime_ms = 0;
  uint64_t memory_total = 0;      // bytes
  uint64_t memory_available = 0;  // bytes
  uint64_t memory_kills = 0;      // processes ended because memory ran out
  uint32_t cpus = 0;
  uint64_t cpu_user_ms = 0;  // of all CPUs since the start
  uint64_t cpu_system_ms = 0;
  uint64_t cpu_idle_ms = 0;   // waiting for disks counts as idle
  uint64_t cpu_steal_ms = 0;  // taken by the host
  uint64_t load_milli = 0;    // thousandths of the load average of one minute
  uint64_t tasks = 0;         // processes and threads
  uint64_t commands = 0;      // of mvm, running
  uint64_t disk_total = 0;    // bytes, of the root file system's writable layer
  uint64_t disk_available = 0;
  uint64_t inodes_total = 0;
  uint64_t inodes_free = 0;
  bool operator==(const Metrics&) const = default;

  Bytes encode() const;
  static std::optional<Metrics> decode(ByteView item) noexcept;
};

// The fields by their names on the wire, which are those of the JSON document too.
template <typename MetricsType, typename Visit>
void visit_metrics(MetricsType& metrics, Visit visit) {
  visit("uptime_ms", metrics.uptime_ms);
  visit("memory_total", metrics.memory_total);
  visit("memory_available", metrics.memory_available);
  visit("memory_kills", metrics.memory_kills);
  visit("cpus", metrics.cpus);
  visit("cpu_user_ms", metrics.cpu_user_ms);
  visit("cpu_system_ms", metrics.cpu_system_ms);
  visit("cpu_idle_ms", metrics.cpu_idle_ms);
  visit("cpu_steal_ms", metrics.cpu_steal_ms);
  visit("load_milli", metrics.load_milli);
  visit("tasks", metrics.tasks);
  visit("commands", metrics.commands);
  visit("disk_total", metrics.disk_total);
  visit("disk_available", metrics.disk_available);
  visit("inodes_total", metrics.inodes_total);
  visit("inodes_free", metrics.inodes_free);
}

}
