// What a host is told to do that lets nobody make user namespaces.
#include "mvm/jail/jail.h"
#include "mvm/sys/file.h"

namespace mvm::jail {

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

}
