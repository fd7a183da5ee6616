#pragma once

namespace mvm::monitor {

// The `mvm monitor` process: takes its configuration from descriptor 3, builds one machine,
// confines each of its threads, and runs it to its end. Returns the process's exit code; how the
// machine ended is the last event on descriptor 3.
int run_monitor();

}
