#pragma once
// The processes that this program can be. Each takes what it was handed, narrows its privileges,
// and runs.

namespace mvm::role {

int run_daemon(int argc, char** argv);
int run_sandbox();
int run_monitor();
int run_cli(int argc, char** argv);

}
