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
