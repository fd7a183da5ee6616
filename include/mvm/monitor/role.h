#pragma once
#include "mvm/jail/jail.h"

namespace mvm::monitor {

// The `mvm monitor` process, started by the sandbox process with `isolation`: takes its
// configuration from descriptor 3, builds one machine, confines each of its threads, and runs it to
// its end. Returns the process's exit code; how the machine ended is the last event on
// descriptor 3.
int run_monitor(jail::Isolation isolation);

}
