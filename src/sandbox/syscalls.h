#pragma once

#include <vector>

#include "mvm/jail/seccomp.h"

namespace mvm::sandbox {

// What the sandbox process needs once its monitor runs.
std::vector<jail::Rule> sandbox_syscalls();
// What the thread needs that brings the audit log to the disk.
std::vector<jail::Rule> audit_syscalls();

}
