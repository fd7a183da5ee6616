#pragma once
#include "mvm/jail/jail.h"

namespace mvm::sandbox {

// The `mvm sandbox` process, started by the daemon with `isolation`: takes its configuration from
// descriptor 3, starts its monitor, confines itself, and serves until the machine has ended.
// Returns the process's exit code. What goes wrong before it serves is recorded in exit.json, and
// reaches the daemon that way.
int run_sandbox(jail::Isolation isolation);

}
