#pragma once
#include <optional>
#include <utility>

#include "mvm/audit/writer.h"

namespace mvm::audit {

inline Outcome outcome_of(std::optional<Failure> failure) {
  return Unexpected{std::move(*failure)};
}

}
