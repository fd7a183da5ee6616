#pragma once

namespace mvm::sandbox {

// The `mvm sandbox` process: takes its configuration from descriptor 3, starts its monitor,
// confines itself, and serves until the machine has ended. Returns the process's exit code. What
// goes wrong before it serves is recorded in exit.json, and reaches the daemon that way.
int run_sandbox();

}
