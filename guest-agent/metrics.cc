// A handful of small files of /proc, each read once and whole: the cost does not grow with what
// runs in the sandbox.
#include "metrics.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/file.h"

namespace mvm::guest {

static std::string read_small(const std::string& path) {
  constexpr size_t kMaxFile = size_t{64} * 1024;
  try {
    return sys::read_text_file(path, kMaxFile);
  } catch (const Error&) {
    return {};
  }
}

static std::string_view line_after(std::string_view text, std::string_view label) {
  const size_t at = text.starts_with(label) ? 0 : text.find("\n" + std::string(label));
  if (at == text.npos) return {};
  std::string_view rest = text.substr(at + (at == 0 ? 0 : 1) + label.size());
  rest = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

static std::optional<uint64_t> number_after(std::string_view text, std::string_view label) {
  const std::string_view rest = line_after(text, label);
  return parse_u64(rest.substr(0, rest.find(' ')));
}

std::optional<uint64_t> available_memory() {
  const auto kibibytes = number_after(read_small("/proc/meminfo"), "MemAvailable:");
  if (!kibibytes) return std::nullopt;
  return *kibibytes * 1024;
}

// proc(5): "cpu user nice system idle iowait irq softirq steal ...", in clock ticks.
static void add_cpu_times(proto::Metrics& metrics) {
  const std::string stat = read_small("/proc/stat");
  std::array<uint64_t, 8> ticks{};
  const auto words = split(line_after(stat, "cpu "), ' ');
  for (size_t i = 0; i < std::min(ticks.size(), words.size()); ++i)
    ticks.at(i) = parse_u64(words[i]).value_or(0);
  const auto milliseconds = [](uint64_t value) {
    return value * 1000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  };
  metrics.cpu_user_ms = milliseconds(ticks[0] + ticks[1]);
  metrics.cpu_system_ms = milliseconds(ticks[2] + ticks[5] + ticks[6]);
  metrics.cpu_idle_ms = milliseconds(ticks[3] + ticks[4]);
  metrics.cpu_steal_ms = milliseconds(ticks[7]);
}

proto::Metrics collect_metrics(const std::string& cgroup) {
  proto::Metrics metrics;
  timespec uptime{};
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  metrics.uptime_ms =
      static_cast<uint64_t>(uptime.tv_sec) * 1000 + static_cast<uint64_t>(uptime.tv_nsec) / 1000000;
  struct sysinfo system{};
  ::sysinfo(&system);
  metrics.memory_total = static_cast<uint64_t>(system.totalram) * system.mem_unit;
  metrics.memory_available = available_memory().value_or(0);
  metrics.tasks = system.procs;
  metrics.load_milli = static_cast<uint64_t>(system.loads[0]) * 1000 >> SI_LOAD_SHIFT;
  metrics.cpus = static_cast<uint32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
  if (!cgroup.empty())
    metrics.memory_kills =
        number_after(read_small(cgroup + "/memory.events"), "oom_kill").value_or(0);
  add_cpu_times(metrics);
  struct statvfs disk{};
  if (::statvfs("/", &disk) == 0) {
    metrics.disk_total = disk.f_blocks * disk.f_frsize;
    metrics.disk_available = disk.f_bavail * disk.f_frsize;
    metrics.inodes_total = disk.f_files;
    metrics.inodes_free = disk.f_ffree;
  }
  return metrics;
}

}
