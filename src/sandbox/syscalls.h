#pragma once

#include <vector>

#include "mvm/jail/seccomp.h"

namespace mvm::sandbox {

// What the sandbox process needs once its monitor runs.
// `has_network`: it carries the guest's connections too.
std::vector<jail::Rule> sandbox_syscalls(bool has_network);
// What the thread needs that brings the audit log to the disk.
std::vector<jail::Rule> audit_syscalls();

}
