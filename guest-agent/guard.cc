#include "guard.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "init.h"
#include "metrics.h"

namespace mvm::guest {

// The agent uses about 3 MiB; the rest is for the kernel: page tables, socket buffers, its caches.
static constexpr uint64_t kLeastReserve = uint64_t{12} << 20;
static constexpr uint64_t kMostReserve = uint64_t{64} << 20;
static constexpr int kPriority = -10;

CommandShare command_share(uint64_t available_memory, uint64_t max_threads) {
  const uint64_t reserve = std::clamp(available_memory / 16, kLeastReserve, kMostReserve);
  CommandShare share;
  if (available_memory > 2 * reserve) share.memory = available_memory - reserve;
  share.processes = std::max<uint64_t>(max_threads - max_threads / 8, 16);
  share.processes_each = std::max<uint64_t>(share.processes - share.processes / 8, 8);
  return share;
}

static void write_value(const std::string& path, const std::string& value) {
  try {
    const sys::Fd fd = sys::open_file(path, O_WRONLY);
    sys::write_all(fd.get(), as_bytes(value));
  } catch (const SystemError& error) {
    say("setting " + path + " to " + value + ": " + sys::errno_text(error.errno_value()));
  }
}

void guard_self() {
  // When memory runs out, a command goes, never its keeper (launch.cc gives commands a plain 0).
  write_value("/proc/self/oom_score_adj", "-1000");
  // Only what is in use: locking fetches nothing, so it costs the boot nothing.
  if (::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
    say("locking memory: " + sys::errno_text(errno));
  // RESET_ON_FORK: commands start with the usual priority (sched(7)).
  const sched_param none{};
  if (::sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) != 0 ||
      ::setpriority(PRIO_PROCESS, 0, kPriority) != 0)
    say("raising the agent's priority: " + sys::errno_text(errno));
}

static uint64_t max_threads() {
  constexpr size_t kMaxNumber = 64;
  std::string text = sys::read_text_file("/proc/sys/kernel/threads-max", kMaxNumber);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return parse_u64(text).value_or(0);
}

CommandShare guard_from_commands(const std::string& cgroup) {
  const CommandShare share = command_share(available_memory().value_or(0), max_threads());
  const std::string root = cgroup.substr(0, cgroup.rfind('/'));
  // One by one: a kernel without one of them refuses the whole line.
  for (const char* controller : {"memory", "pids", "cpu"})
    write_value(root + "/cgroup.subtree_control", std::string("+") + controller);
  if (::mkdir(cgroup.c_str(), 0755) != 0 && errno != EEXIST) {
    say("making " + cgroup + ": " + sys::errno_text(errno));
    return {};
  }
  if (share.memory > 0) write_value(cgroup + "/memory.max", std::to_string(share.memory));
  write_value(cgroup + "/pids.max", std::to_string(share.processes));
  for (const char* controller : {"pids", "cpu"})
    write_value(cgroup + "/cgroup.subtree_control", std::string("+") + controller);
  return share;
}

}
