#pragma once
// A build as a line for the shell.

#include <string>

#include "mvm/build/build.h"

namespace mvm::build {

// "mvm build DIR --flake REF …": builds the same again, wherever it is typed.
std::string command_of(const Request& request);

}
