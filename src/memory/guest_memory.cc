#include "mvm/memory/guest_memory.h"

#include <algorithm>
#include <string>

#include <sys/mman.h>

#include "mvm/base/error.h"
#include "mvm/sys/file.h"

namespace mvm::memory {

GuestMemory GuestMemory::create(uint64_t size) {
  if (size == 0 || size % kPageSize != 0)
    throw Error(Kind::Invalid,
                "guest memory must be a multiple of " + std::to_string(kPageSize) + " bytes");
  GuestMemory memory;
  memory.size_ = size;
  memory.file_ = sys::memory_file("mvm-guest", size);
  const uint64_t low = std::min(size, kMmioGapStart);
  const auto add = [&memory](uint64_t start, uint64_t offset, uint64_t length) {
    memory.mappings_.push_back(sys::Mapping::map(
        memory.file_.get(), offset, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE));
    memory.regions_.push_back(
        {GuestAddress{start}, length, memory.mappings_.back().data(), offset});
  };
  add(0, 0, low);
  if (size > low) add(kMmioGapEnd, low, size - low);
  return memory;
}

}
