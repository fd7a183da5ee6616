#pragma once
// The processes that this program can be. Each takes what it was handed, narrows its privileges,
// and runs.

#include "mvm/jail/jail.h"

namespace mvm::role {

// The one argument of the two confined roles: how far the parent has set this process apart.
// Throws Error{Invalid} for anything else: a person has called it.
jail::Isolation isolation_of(int argc, char** argv);

int run_daemon(int argc, char** argv);
int run_sandbox(int argc, char** argv);
int run_monitor(int argc, char** argv);
int run_cli(int argc, char** argv);

}
