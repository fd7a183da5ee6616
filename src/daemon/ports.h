#pragma once
// Listening sockets for a sandbox's published ports. The daemon opens them, for the sandbox process
// is not allowed to, and keeps none: they are that process's from then on.

#include <vector>

#include "mvm/proto/ports.h"
#include "mvm/sys/fd.h"

namespace mvm::daemon {

// Fills in the numbers of those that were to be chosen. Error{Conflict} naming the port that is
// taken; then none is held.
std::vector<sys::Fd> listen_on(std::vector<proto::PublishedPort>& ports);

}
