#pragma once
// Disks that outlive the sandboxes they are given to: data/disks/NAME.img.

#include "mvm/api/types.h"
#include "mvm/store/paths.h"
#include "mvm/sys/fd.h"

namespace mvm::daemon {

// Throws Error{Invalid} for a name, a size above `most` bytes, or a place in the guest that cannot
// be.
void check_kept_disk(const api::KeptDisk& disk, uint64_t most);

// Open for reading and writing; made where there is none, grown where it is smaller. Nobody else
// may use it.
sys::Fd open_kept_disk(const store::Paths& paths, const api::KeptDisk& disk);

}
