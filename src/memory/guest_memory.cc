// Guest memory is anonymous and private, not a memfd, and comes in huge pages where the host has
// them (docs/decisions/0006-guest-memory-is-anonymous.md has the measurements).
#include "mvm/memory/guest_memory.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <linux/mman.h>
#include <sys/mman.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"

namespace mvm::memory {

// What the host gives as it is touched. The mapping has room to begin at a huge page's boundary, as
// the guest's addresses do: else neither the host's page tables nor the guest's can use one.
static sys::Mapping map_anonymous(uint64_t length) {
  auto mapping = sys::Mapping::map(-1, 0, length + kHugePageSize, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_NORESERVE);
  // A hint, so its result does not matter.
  ::madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  return mapping;
}

// Without MAP_NORESERVE the kernel sets the pages aside here and now, or refuses: the guest cannot
// meet an empty reserve (SIGBUS) later.
static sys::Mapping map_huge_pages(uint64_t length) {
  try {
    return sys::Mapping::map(-1, 0, length, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_HUGETLB | MAP_HUGE_2MB);
  } catch (const SystemError& error) {
    if (error.errno_value() != ENOMEM) throw;
    throw Error(Kind::Exhausted,
                "the host's reserve of 2 MiB pages is short of the " + format_size(length) +
                    " that the sandbox asks for (HugePages_Free less HugePages_Rsvd in "
                    "/proc/meminfo); raise vm.nr_hugepages, or do without huge_pages");
  }
}

void GuestMemory::touch_what_boots_do() const noexcept {
  // The kernel itself is there already: it was loaded. Behind it, and from the top down, it takes
  // what it needs first (memblock); how much was read off the pages of guests that had booted.
  constexpr uint64_t kBottom = 34 << 20;
  constexpr uint64_t kTop = 8 << 20;
  if (backing_ == Backing::HugePages) return;  // they are all there
  const Region& low = regions_.front();
  const uint64_t bottom = std::min(kBottom, low.size);
  const uint64_t top = std::min(kTop, low.size - bottom) & ~(kHugePageSize - 1);
  ::madvise(low.host, bottom, MADV_POPULATE_WRITE);
  ::madvise(low.host + low.size - top, top, MADV_POPULATE_WRITE);
}

GuestMemory GuestMemory::create(uint64_t size, Backing backing) {
  const bool huge = backing == Backing::HugePages;
  const uint64_t page = huge ? kHugePageSize : kPageSize;
  if (size > kMaxGuestMemory)
    throw Error(Kind::Invalid, "guest memory can be " + format_size(kMaxGuestMemory) + " at most");
  if (size == 0 || size % page != 0)
    throw Error(Kind::Invalid, "guest memory must be a multiple of " + format_size(page) +
                                   (huge ? " where it is made of huge pages" : ""));
  GuestMemory memory;
  memory.size_ = size;
  memory.backing_ = backing;
  const auto add = [&](uint64_t start, uint64_t length) {
    auto mapping = huge ? map_huge_pages(length) : map_anonymous(length);
    const auto misaligned = reinterpret_cast<uintptr_t>(mapping.data()) % kHugePageSize;
    std::byte* host = mapping.data() + (kHugePageSize - misaligned) % kHugePageSize;
    // A guest's memory has no place in a core file. A hint, too.
    ::madvise(mapping.data(), mapping.size(), MADV_DONTDUMP);
    memory.mappings_.push_back(std::move(mapping));
    memory.regions_.push_back({GuestAddress{start}, length, host});
  };
  const uint64_t low = std::min(size, kMmioGapStart);
  add(0, low);
  if (size > low) add(kMmioGapEnd, size - low);
  return memory;
}

}
