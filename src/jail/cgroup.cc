#include "mvm/jail/cgroup.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "cgroup_file.h"

namespace mvm::jail {

static constexpr std::string_view kPrefix = "mvm-";

void put_text(const std::string& path, const std::string& text) {
  const sys::Fd fd = sys::open_file(path, O_WRONLY);
  while_doing("writing " + text + " to " + path, [&] { sys::write_all(fd.get(), as_bytes(text)); });
}

void make_group(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    throw SystemError(errno, "making cgroup " + path);
}

std::string Cgroups::path_of(std::string_view id) const {
  return base_ + "/" + std::string(kPrefix) + std::string(id);
}

sys::Fd Cgroups::make(std::string_view id, const CgroupLimits& limits) const {
  if (!available()) return {};
  const std::string path = path_of(id);
  make_group(path);
  put_text(path + "/pids.max", std::to_string(limits.processes));
  // Controllers that the host does not pass on to us have no files here.
  if (sys::exists(path + "/memory.max"))
    put_text(path + "/memory.max", std::to_string(limits.memory));
  if (sys::exists(path + "/cpu.weight"))
    put_text(path + "/cpu.weight", std::to_string(limits.cpu_weight));
  return sys::open_file(path, O_RDONLY | O_DIRECTORY);
}

// Until nothing runs in the group: KVM's own threads end a moment after the machine. False after a
// second.
static bool await_empty(const std::string& path) {
  constexpr int kPatience = 1'000;
  const sys::Fd events = sys::open_file(path + "/cgroup.events", O_RDONLY);
  while (true) {
    std::array<std::byte, 256> text{};
    const size_t got = sys::pread_some(events.get(), text, 0);
    if (as_text(ByteView(text).first(got)).find("populated 0") != std::string_view::npos)
      return true;
    // The kernel says so when the file changes (cgroup-v2.rst, "[Un]populated Notification").
    pollfd change{events.get(), POLLPRI, 0};
    if (::poll(&change, 1, kPatience) <= 0) return false;
  }
}

void Cgroups::remove(std::string_view id) const noexcept {
  if (!available()) return;
  const std::string path = path_of(id);
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  try {
    put_text(path + "/cgroup.kill", "1");
    await_empty(path);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Before Linux 5.14. A group that stays is removed at the daemon's next start.
  }
  ::rmdir(path.c_str());
}

void Cgroups::remove_orphans(const std::set<std::string>& known) const {
  if (!available()) return;
  for (const std::string& name : sys::list_directory(base_)) {
    if (!name.starts_with(kPrefix) || known.contains(name.substr(kPrefix.size()))) continue;
    // Not with force: another daemon of this user may have its sandboxes here.
    ::rmdir((base_ + "/" + name).c_str());
  }
}

}
