#pragma once
// A sandbox without a machine, as the daemon starts one: the sandbox's own multiplexer and audit
// trail, and behind them the agent itself, on this host. The test program runs itself as `<it>
// sandbox`.

namespace mvm::leaks {

int run_machine();

}
