// Where a process may have cgroups of its own.
#include <array>
#include <string>

#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/jail/cgroup.h"
#include "mvm/sys/file.h"

#include "cgroup_file.h"

namespace mvm::jail {

static constexpr std::string_view kMount = "/sys/fs/cgroup";
static constexpr std::array<const char*, 3> kControllers{"pids", "memory", "cpu"};
static constexpr const char* kDelegate =
    "start `mvm daemon` as a service that systemd delegates a cgroup to: systemd-run --user -p "
    "Delegate=yes mvm daemon";

static bool has_word(const std::string& path, std::string_view word) {
  if (!sys::exists(path)) return false;
  const std::string text = sys::read_text_file(path, 4096);
  for (const auto line : split(text, '\n'))
    for (const auto each : split(line, ' '))
      if (each == word) return true;
  return false;
}

// The path of our own group: the line "0::/path" of /proc/self/cgroup.
static std::string own_group() {
  const std::string text = sys::read_text_file("/proc/self/cgroup", 64 * 1024);
  for (const auto line : split(text, '\n'))
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  return "";
}

// Passes what controllers there are on to the groups below. False when pids, the least of them,
// does not go.
static bool pass_controllers(const std::string& directory) {
  for (const char* controller : kControllers) {
    if (has_word(directory + "/cgroup.subtree_control", controller)) continue;
    try {
      put_text(directory + "/cgroup.subtree_control", std::string("+") + controller);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // One that is not there, or not ours to pass on; which of them count is checked below.
    }
  }
  return has_word(directory + "/cgroup.subtree_control", "pids");
}

// The group above the sandboxes' groups, if this process may have one. Throws Error.
static std::string base_group() {
  const std::string top(kMount);
  if (!has_word(top + "/cgroup.controllers", "pids"))
    throw Error(Kind::Unsupported, "there is no pids controller at " + top);
  if (::geteuid() == 0) return top + "/mvm";
  const std::string base = top + own_group();
  if (base == top || ::access((base + "/cgroup.procs").c_str(), W_OK) != 0 ||
      ::access(base.c_str(), W_OK) != 0)
    throw Error(Kind::Denied, base + " is not delegated to this user");
  return base;
}

static void prepare(const std::string& base) {
  if (::geteuid() == 0) {
    pass_controllers(std::string(kMount));
    make_group(base);
  } else {
    make_group(base + "/mvm.daemon");
    put_text(base + "/mvm.daemon/cgroup.procs", "0");
  }
  if (!pass_controllers(base))
    throw Error(Kind::Denied, "the pids controller cannot be passed on below " + base);
}

static Cgroups groups_of(bool prepared) {
  if (!sys::exists(std::string(kMount) + "/cgroup.controllers"))
    return {"", "there is no cgroup v2 at " + std::string(kMount),
            "boot with systemd.unified_cgroup_hierarchy=1"};
  try {
    const std::string base = base_group();
    if (prepared) prepare(base);
    return {base, "", ""};
  } catch (const Error& error) {
    return {"", error.message(),
            ::geteuid() == 0
                ? "a kernel with CONFIG_CGROUP_PIDS, and a writable " + std::string(kMount)
                : kDelegate};
  }
}

Cgroups Cgroups::find() { return groups_of(true); }
Cgroups Cgroups::look() { return groups_of(false); }

}
