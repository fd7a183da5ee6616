// `mvm monitor`: the jailed child of `mvm sandbox`, and the only process with guest memory.
#include "mvm/monitor/role.h"

#include "roles.h"

namespace mvm::role {

int run_monitor(int argc, char** argv) { return monitor::run_monitor(isolation_of(argc, argv)); }

}
