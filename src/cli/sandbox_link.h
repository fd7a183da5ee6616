#pragma once

#include <string>

#include "mvm/cli/context.h"
#include "mvm/sys/fd.h"

namespace mvm::cli {

struct SandboxLink {
  sys::Fd control;
  std::string vsock;  // the socket by which its vsock ports are reached
};

// Both ways to a sandbox. Where there is none the daemon is asked, and the error says why: there is
// no such sandbox, or it does not run.
SandboxLink link_sandbox(Context& context, const std::string& name);

// A connection to the sandbox's control socket, in the same way.
sys::Fd connect_sandbox(Context& context, const std::string& name);

}
