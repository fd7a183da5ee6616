#pragma once
// HEALTHCHECK of a Dockerfile, as Docker writes it into an image's configuration: it is in no
// specification of OCI. Times are in nanoseconds, and 0 stands for Docker's default.
//
// What is asked for is taken up to mvm's bounds (proto/health.h): a time beyond them becomes the
// nearest one within, since a check every millisecond is a check every second to whoever wrote it.
// What has no meaning is refused.

#include <optional>

#include "mvm/proto/health.h"

#include "json.h"

namespace mvm::oci {

// Of the object "config" of a configuration. Throws Error{Invalid}, or Error{Exhausted} for a
// command that is too long.
std::optional<proto::HealthCheck> health_of(const Json& run);

}
