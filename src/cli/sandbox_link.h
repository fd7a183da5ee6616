#pragma once

#include "mvm/cli/context.h"
#include "mvm/sys/fd.h"

namespace mvm::cli {

// A connection to the sandbox's control socket. Where there is none the daemon is asked, and the
// error says why: there is no such sandbox, or it does not run.
sys::Fd connect_sandbox(Context& context, const std::string& name);

}
