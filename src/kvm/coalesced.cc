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

// Entry `index` of the ring. Only we move `first`, and write into entries up to `last`. Indices are
// the kernel's and its word is good; the bound is so that a mistake is no overrun.
static kvm_coalesced_mmio* entry_at(std::span<std::byte> page, uint32_t index) {
  return reinterpret_cast<kvm_coalesced_mmio*>(page.data() + sizeof(RingHeader) +
                                               index % kEntries * sizeof(kvm_coalesced_mmio));
}

static CoalescedWrites::Write write_of(const kvm_coalesced_mmio& entry) {
  CoalescedWrites::Write write{.address = entry.phys_addr,
                               .length = std::min<size_t>(entry.len, sizeof entry.data)};
  std::memcpy(write.data.data(), entry.data, sizeof entry.data);
  return write;
}

std::optional<CoalescedWrites::Write> CoalescedWrites::front() const noexcept {
  if (empty()) return std::nullopt;
  return write_of(*entry_at(page_, ring_in(page_)->first));
}

void CoalescedWrites::pop() noexcept {
  if (empty()) return;
  auto* ring = ring_in(page_);
  __atomic_store_n(&ring->first, (ring->first + 1) % kEntries, __ATOMIC_RELEASE);
  skip_taken();
}

// The kernel writes no entry of length 0: that is one which take() has taken.
void CoalescedWrites::skip_taken() noexcept {
  auto* ring = ring_in(page_);
  while (!empty() && entry_at(page_, ring->first)->len == 0)
    __atomic_store_n(&ring->first, (ring->first + 1) % kEntries, __ATOMIC_RELEASE);
}

void CoalescedWrites::take(uint64_t address, const std::function<void(ByteView data)>& apply) {
  if (empty()) return;
  auto* ring = ring_in(page_);
  const uint32_t last = __atomic_load_n(&ring->last, __ATOMIC_ACQUIRE) % kEntries;
  for (uint32_t index = ring->first % kEntries; index != last; index = (index + 1) % kEntries) {
    kvm_coalesced_mmio* entry = entry_at(page_, index);
    if (entry->phys_addr != address || entry->len == 0) continue;
    apply(write_of(*entry).bytes());
    entry->len = 0;
  }
  skip_taken();
}

}
