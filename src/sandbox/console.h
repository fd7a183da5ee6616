#pragma once
// Lets a client sit at the console: its socket goes to the monitor, and nothing of what passes
// through it comes here.

#include "mvm/proto/profile.h"

#include "monitor_link.h"
#include "mux.h"

namespace mvm::sandbox {

// Answers kSandboxConsoleVerb; false when `request` is of another verb. A sealed sandbox is not
// typed into. `monitor` is null once it is gone.
bool answer_console(Mux& mux, MonitorLink* monitor, proto::Profile profile, Asker asker,
                    ByteView request);

}
