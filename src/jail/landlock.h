#pragma once
// Landlock (Documentation/userspace-api/landlock.rst): the kernel refuses this process every access
// by name but those granted.

#include <span>

namespace mvm::jail {

// The running kernel's version of the interface; 0 where it has none, or it is switched off.
int landlock_abi();

// Everything that the ABI knows is refused, except making, writing and removing files below the
// open directories `writable`, and making and writing them below `appendable`. `scope_signals`:
// signals reach only processes started afterwards. `refuse_dials`: no TCP connections. False where
// the kernel has no Landlock. Needs no_new_privs.
bool restrict_by_landlock(std::span<const int> writable, std::span<const int> appendable,
                          bool scope_signals, bool refuse_dials);

}
