#pragma once
// Whether an image in the store is what was put there.

#include <cstdint>
#include <functional>
#include <string_view>

#include "mvm/store/images.h"

namespace mvm::image {

// Reads all of it. Its bytes have to be those that its digest names, what its manifest says it runs
// has to be what those bytes were sealed with, and what it was made from what the index remembers.
// Throws Error{Invalid} that says what is wrong; `progress` gets bytes.
store::Image verify_image(store::Images& images, std::string_view ref,
                          const std::function<void(uint64_t)>& progress = {});

}
