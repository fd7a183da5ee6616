// Guest memory is anonymous and private, not a memfd. Loading an 18 MiB kernel into it (one
// machine, all in the page cache, best of 15):
//
//   memfd, shared; pread, with or without populating first     21 ms
//   memfd, shared; mmap of the kernel and memcpy                34 ms
//   memfd, shared, MADV_HUGEPAGE (off in Linux's defaults)      28 ms
//   anonymous; pread                                            20 ms
//   anonymous, MADV_HUGEPAGE on what is loaded; pread            3 ms
//   private mapping of the kernel's file in its place            0 ms, and a fault a page later
//
// So what is filled anyway comes in huge pages, which also saves the guest its faults there; the
// rest stays in small ones, for a guest touches it here and there and its memory is ours to pay.
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
    ::madvise(mapping.data(), mapping.size(), MADV_NOHUGEPAGE);
    memory.mappings_.push_back(std::move(mapping));
    memory.regions_.push_back({GuestAddress{start}, length, host});
  };
  const uint64_t low = std::min(size, kMmioGapStart);
  add(0, low);
  if (size > low) add(kMmioGapEnd, size - low);
  return memory;
}

void GuestMemory::expect_filled(GuestAddress at, uint64_t length) const noexcept {
  for (const Region& region : regions_) {
    const uint64_t offset = at.value - region.start.value;
    if (offset >= region.size || length > region.size - offset) continue;
    // Whole huge pages around the range, as far as the region goes.
    const uint64_t first = offset / kHugePageSize * kHugePageSize;
    const uint64_t last = checked_align_up(offset + length, kHugePageSize).value_or(region.size);
    ::madvise(region.host + first, static_cast<size_t>(std::min(last, region.size) - first),
              MADV_HUGEPAGE);
  }
}

}
