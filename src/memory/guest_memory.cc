// Guest memory is anonymous and private, not a memfd, and comes in huge pages where the host has
// them (docs/decisions/0006-guest-memory-is-anonymous.md has the measurements).
#include "mvm/memory/guest_memory.h"

#include <algorithm>
#include <string>

#include <sys/mman.h>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"

namespace mvm::memory {

GuestMemory GuestMemory::create(uint64_t size) {
  if (size == 0 || size % kPageSize != 0)
    throw Error(Kind::Invalid,
                "guest memory must be a multiple of " + std::to_string(kPageSize) + " bytes");
  GuestMemory memory;
  memory.size_ = size;
  const auto add = [&memory](uint64_t start, uint64_t length) {
    // Room to begin at a huge page's boundary, as the guest's addresses do: else neither the host's
    // page tables nor the guest's can use one.
    const auto reserved = checked_add<uint64_t>(length, kHugePageSize);
    if (!reserved) throw Error(Kind::Invalid, "guest memory is larger than an address space");
    auto mapping =
        sys::Mapping::map(-1, 0, *reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
    const auto misaligned = reinterpret_cast<uintptr_t>(mapping.data()) % kHugePageSize;
    std::byte* host = mapping.data() + (kHugePageSize - misaligned) % kHugePageSize;
    // A guest's memory has no place in a core file. Hints both, so their results do not matter.
    ::madvise(mapping.data(), mapping.size(), MADV_DONTDUMP);
    ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
    memory.mappings_.push_back(std::move(mapping));
    memory.regions_.push_back({GuestAddress{start}, length, host});
  };
  const uint64_t low = std::min(size, kMmioGapStart);
  add(0, low);
  if (size > low) add(kMmioGapEnd, size - low);
  return memory;
}

}
