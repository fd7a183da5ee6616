#pragma once
#include "window.h"

namespace mvm::protect {

struct Outcome {
  Found found;
  size_t resume;  // triggers before this are answered
};

// Asks the detectors that a trigger at `at` concerns.
Outcome examine(const Window& window, size_t at, const ClassSet& classes);

}
