#pragma once

#include "mvm/proto/control.h"

namespace mvm::sandbox {

// Writes exit.json ({"reason", "detail", "ended_at_unix_ms"}) into a data directory, atomically and
// durably: whoever supervises finds it even when nobody was there at the end. Throws SystemError.
void write_exit_record(int data_directory, const proto::SandboxEnd& end);

}
