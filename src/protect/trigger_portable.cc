// Triggers with what every processor has: the twin that the others are tested against.

#include "trigger_paths.h"
#include "trigger_sheet.h"

#define MVM_TARGET
#define MVM_LANES 16

namespace mvm::protect {
namespace {

Block classify(const char* data) {
  Block out;
  for (size_t i = 0; i < kBlockSize; ++i) classify_byte(data[i], i, out);
  return out;
}

}
}

#include "trigger_lanes.h"

namespace mvm::protect {

void find_portable(const char* data, size_t blocks, char before, uint64_t* out) {
  find(data, blocks, before, out);
}

}
