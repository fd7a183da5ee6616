#include "mvm/kvm/coalesced.h"

#include <algorithm>
#include <cstring>

#include <linux/kvm.h>

#include "mvm/base/error.h"
#include "mvm/memory/guest_memory.h"

namespace mvm::kvm {

// linux/kvm.h's struct kvm_coalesced_mmio_ring is longer in C++ than in C (see kvm.cc), and its
// count of entries needs a PAGE_SIZE that user space does not have.
struct RingHeader {
  uint32_t first;
  uint32_t last;
};
static constexpr uint32_t kEntries =
    (memory::kPageSize - sizeof(RingHeader)) / sizeof(kvm_coalesced_mmio);

CoalescedWrites::CoalescedWrites(std::span<std::byte> page) : page_(page) {
  MVM_ASSERT(page_.size() == memory::kPageSize);
}

static RingHeader* ring_in(std::span<std::byte> page) {
  // The layout is the kernel's.
  return reinterpret_cast<RingHeader*>(page.data());
}

bool CoalescedWrites::empty() const noexcept {
  if (page_.empty()) return true;
  const auto* ring = ring_in(page_);
  return __atomic_load_n(&ring->first, __ATOMIC_ACQUIRE) ==
         __atomic_load_n(&ring->last, __ATOMIC_ACQUIRE);
}

void CoalescedWrites::drain(const Apply& apply) {
  if (page_.empty()) return;
  auto* ring = ring_in(page_);
  // Only we move `first`. Indices are the kernel's and its word is good; the bound is so that a
  // mistake is no overrun.
  uint32_t first = ring->first % kEntries;
  while (first != __atomic_load_n(&ring->last, __ATOMIC_ACQUIRE) % kEntries) {
    kvm_coalesced_mmio entry{};
    std::memcpy(&entry, page_.data() + sizeof *ring + first * sizeof entry, sizeof entry);
    const size_t length = std::min<size_t>(entry.len, sizeof entry.data);
    apply(entry.phys_addr, std::as_bytes(std::span(entry.data)).first(length));
    first = (first + 1) % kEntries;
    __atomic_store_n(&ring->first, first, __ATOMIC_RELEASE);
  }
}

}
