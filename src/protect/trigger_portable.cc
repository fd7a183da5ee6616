// Triggers with what every processor has: the twin that the others are tested against.

#include "trigger_paths.h"
#include "trigger_sheet.h"

#define MVM_TARGET
#define MVM_LANES 16

namespace mvm::protect {
namespace {

void classify(const char* data, Sheet& sheet, size_t block) {
  each_kind(sheet, [block](Marks& marks) { marks[block] = 0; });
  for (size_t i = 0; i < kBlockSize; ++i) classify_byte(sheet, block, data[i], uint64_t{1} << i);
}

}
}

#include "trigger_lanes.h"

namespace mvm::protect {

void find_portable(const char* data, size_t blocks, char before, uint64_t* out) {
  find(data, blocks, before, out);
}

}
