// Stage 3: capabilities, limits, Landlock.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/jail/jail.h"
#include "mvm/jail/seccomp.h"
#include "mvm/sys/error.h"

#include "landlock.h"

namespace mvm::jail {

[[noreturn]] static void refuse(const std::string& what) {
  throw Error(Kind::Internal, "the jail is not as it should be: " + what);
}

using CapabilitySets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

static CapabilitySets capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilitySets sets{};
  sys::check(::syscall(SYS_capget, &header, sets.data()), "reading capabilities");
  return sets;
}

static bool may_change_bounds() {
  return (capabilities()[CAP_TO_INDEX(CAP_SETPCAP)].effective & CAP_TO_MASK(CAP_SETPCAP)) != 0;
}

// No exec gives capabilities back, whatever the file and whoever runs it. Who may not say so has
// none in the bounding set's reach either: no_new_privs stops what set-id and file capabilities
// would give.
static void empty_bounds() {
  for (int number = 0; ::prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; ++number)
    sys::check(::prctl(PR_CAPBSET_DROP, number, 0, 0, 0), "dropping a capability");
  constexpr unsigned long kLocked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                    SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                    SECBIT_NO_CAP_AMBIENT_RAISE |
                                    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  sys::check(::prctl(PR_SET_SECUREBITS, kLocked, 0, 0, 0), "locking capabilities");
}

static void drop_capabilities() {
  if (may_change_bounds()) {
    empty_bounds();
    for (int number = 0;; ++number) {
      const int held = ::prctl(PR_CAPBSET_READ, number, 0, 0, 0);
      if (held < 0) break;
      if (held != 0) refuse("capability " + std::to_string(number) + " is within bounds");
    }
  }
  sys::check(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
             "clearing ambient capabilities");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const CapabilitySets none{};
  sys::check(::syscall(SYS_capset, &header, none.data()), "dropping capabilities");
  for (const auto& set : capabilities())
    if ((set.effective | set.permitted | set.inheritable) != 0) refuse("a capability is left");
}

// Both limits, and never above what was allowed before.
static void limit(__rlimit_resource resource, uint64_t value, const char* name) {
  rlimit now{};
  sys::check(::getrlimit(resource, &now), std::string("reading the limit ") + name);
  const rlim_t wanted = std::min<rlim_t>(value, now.rlim_max);
  const rlimit next{wanted, wanted};
  sys::check(::setrlimit(resource, &next), std::string("setting the limit ") + name);
}

static void set_limits(const Limits& limits) {
  // A write past the limit is an error to handle, not a reason to die.
  ::signal(SIGXFSZ, SIG_IGN);
  limit(RLIMIT_CORE, 0, "core");
  limit(RLIMIT_NOFILE, limits.files, "nofile");
  limit(RLIMIT_FSIZE, limits.file_size, "fsize");
  limit(RLIMIT_MEMLOCK, limits.locked, "memlock");
  if (limits.processes) limit(RLIMIT_NPROC, *limits.processes, "nproc");
}

void limit_file_size(uint64_t bytes) { limit(RLIMIT_FSIZE, bytes, "fsize"); }

void forbid_processes() { limit(RLIMIT_NPROC, 0, "nproc"); }

void give_up_rights(const Rights& rights) {
  drop_capabilities();
  set_limits(rights.limits);
  forbid_new_privileges();
  // Where the kernel has no Landlock the empty root stands alone; `mvm doctor` says so.
  restrict_by_landlock(rights.writable, rights.appendable, !rights.signals_children, !rights.dials);
  sys::check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "forbidding core dumps");
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) refuse("new privileges are not forbidden");
  if (::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0) refuse("the process can be dumped");
}

}
