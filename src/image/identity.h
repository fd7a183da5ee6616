#pragma once
// Images are named by their bytes, so what they run must be part of them: of two with the same
// files and different commands each keeps its own.

#include <string>

#include "mvm/store/images.h"

namespace mvm::image {

// What ErofsWriter::seal takes. Images carry its hash: it must not change.
std::string identity_of(const store::ImageConfig& config);

}
