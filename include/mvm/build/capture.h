#pragma once
// The daemon's side of a build: an image of the tar archive that a command in a sandbox writes,
// straight from its pipe to EROFS. The sandbox is hostile, and so is the archive.

#include "mvm/agent/connection.h"
#include "mvm/api/types.h"
#include "mvm/image/import.h"
#include "mvm/store/images.h"

namespace mvm::build {

inline constexpr size_t kMaxAttributes = 65536;

// Throws Error{Invalid} for a request that makes no sense, Error{Unavailable} when the command
// fails, with what it said last; and the errors of agent::Connection and image::import_tar.
image::Imported capture(store::Images& images, agent::Connection& connection,
                        const api::CaptureRequest& request, const image::Progress& progress);

// Throws Error{NotFound} when nothing was made under that key, or it is gone.
store::Image adopt(store::Images images, const api::AdoptRequest& request);

}
