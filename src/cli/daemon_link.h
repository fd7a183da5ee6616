#pragma once
// Finding the daemon, and starting it where it does not run.

#include <memory>

#include "mvm/api/client.h"
#include "mvm/store/paths.h"

namespace mvm::cli {

// Nothing when it does not run.
std::unique_ptr<api::Client> find_daemon(const store::Paths& paths);

// Starts it when it does not run, once however many callers ask at once, and waits until it
// serves. Throws Error{Unavailable} with the end of its log when it does not come up.
std::unique_ptr<api::Client> find_or_start_daemon(const store::Paths& paths);

}
