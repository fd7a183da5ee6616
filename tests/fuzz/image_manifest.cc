// manifest.json of a stored image. The store is the user's own, but who imported the image wrote
// part of what stands there, and another mvm all of it. What is taken is written again as the same.

#include <string_view>

#include "mvm/base/error.h"
#include "mvm/store/images.h"

using namespace mvm;
using namespace mvm::store;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Manifest manifest = manifest_from_json(text, "input");
    MVM_ASSERT(manifest.version >= 1 && manifest.version <= kManifestVersion);
    if (manifest.config.health) MVM_ASSERT(!manifest.config.health->complaint());
    const std::string written = manifest_to_json(manifest);
    MVM_ASSERT(manifest_to_json(manifest_from_json(written, "what we wrote")) == written);
  } catch (const Error& error) {
    MVM_ASSERT(error.message().find("what we wrote") == std::string::npos);
  }
  return 0;
}
