#pragma once
// What a running sandbox uses of memory: the host's figures from its processes, the guest's from
// the sandbox itself.

#include "mvm/api/types.h"

namespace mvm::cli {

// Asked of the sandbox itself, which has some seconds to answer. One that does not is shown without
// what it did not say: that is no failure of looking at it.
api::MemoryUse memory_use(const api::Sandbox& sandbox);

}
