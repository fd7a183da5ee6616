#pragma once
// JSON out of the builder.

#include "mvm/json/json.h"

namespace mvm::build {

using Json = json::Value;

inline json::Limits limits(size_t bytes) { return {.bytes = bytes, .depth = 64}; }

}
