// `mvm sandbox`: one per microVM, started by the daemon.
#include "mvm/sandbox/role.h"

#include "roles.h"

namespace mvm::role {

int run_sandbox(int argc, char** argv) { return sandbox::run_sandbox(isolation_of(argc, argv)); }

}
