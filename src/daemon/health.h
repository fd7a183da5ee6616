#pragma once
// The health of sandboxes, as it is shown.

#include "mvm/api/types.h"
#include "mvm/proto/health.h"

#include "records.h"

namespace mvm::daemon {

// Whether somebody runs checks in it, when it runs.
bool checks_health(const Record& record);
// The guest's words made fit to be shown: no byte in them is obeyed by a terminal.
api::Health shown(const proto::HealthStatus& status);

}
