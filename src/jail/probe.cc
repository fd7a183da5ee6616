// What this host has to offer, found by trying.
#include <fcntl.h>
#include <unistd.h>

#include "mvm/jail/jail.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "landlock.h"

namespace mvm::jail {

// Nothing when a process can be set apart so, else what failed.
static std::optional<std::string> trial(Isolation isolation) {
  try {
    const sys::TempDir scratch;
    const sys::Fd kept = sys::open_file(scratch.path(), O_PATH | O_DIRECTORY);
    sys::SpawnOptions options;
    set_apart(options, isolation, Network::Empty);
    return sys::try_in_child(
        options, [isolation, fd = kept.get()] { leave_file_system(isolation, std::span(&fd, 1)); });
  } catch (const SystemError& error) {
    return error.message();
  }
}

static bool is_set_to(const std::string& path, std::string_view value) {
  return sys::exists(path) && sys::read_text_file(path, 64).starts_with(value);
}

// The settings known to forbid user namespaces, by distribution.
std::string user_namespace_way_out(const std::string& root) {
  const std::string settings = root + "/proc/sys/";
  if (is_set_to(settings + "user/max_user_namespaces", "0"))
    return "sysctl -w user.max_user_namespaces=10000";
  if (is_set_to(settings + "kernel/unprivileged_userns_clone", "0"))
    return "sysctl -w kernel.unprivileged_userns_clone=1";
  if (is_set_to(settings + "kernel/apparmor_restrict_unprivileged_userns", "1"))
    return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that "
           "allows mvm userns";
  return "in a container: let it make user namespaces and mounts (its seccomp and AppArmor "
         "profiles forbid them)";
}

HostSupport probe_host() {
  HostSupport host;
  host.landlock_abi = landlock_abi();
  const auto failure = trial(Isolation::Full);
  if (!failure) {
    host.isolation = Isolation::Full;
  } else {
    host.missing = "user namespaces (" + *failure + ")";
    host.way_out = user_namespace_way_out("");
    if (::geteuid() == 0 && !trial(Isolation::WithoutUser)) {
      host.isolation = Isolation::WithoutUser;
    } else {
      host.missing = "namespaces and an empty root (" + *failure + ")";
    }
  }
  if (host.landlock_abi == 0) {
    host.missing += std::string(host.missing.empty() ? "" : "; ") + "Landlock";
    if (host.way_out.empty())
      host.way_out =
          "a kernel with Landlock (5.13, CONFIG_SECURITY_LANDLOCK), lsm=landlock,… on "
          "its command line";
  }
  return host;
}

}
