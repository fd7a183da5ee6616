#pragma once
// Guest writes that KVM keeps for later (KVM_CAP_COALESCED_MMIO, api.rst 4.116): a write to a range
// given to Vm::coalesce_writes() does not leave the guest for our process; KVM appends it to a ring
// that is looked at after the next exit, whichever vCPU's that is. For registers whose writes
// matter only once another register is touched.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "mvm/base/bytes.h"

namespace mvm::kvm {

// The consumer's side. Not locked: drain() from one thread at a time; empty() from any.
class CoalescedWrites {
 public:
  // No ring: always empty.
  CoalescedWrites() = default;
  // One page, shared with KVM (struct kvm_coalesced_mmio_ring), which outlives this.
  explicit CoalescedWrites(std::span<std::byte> page);

  // A write that came before an exit of the same vCPU is seen after that exit. Writes count as here
  // until apply() has returned from them, so a thread that sees "empty" sees their effects, too.
  bool empty() const noexcept;
  // Oldest first. The bytes are valid during the call.
  using Apply = std::function<void(uint64_t address, ByteView data)>;
  void drain(const Apply& apply);

 private:
  std::span<std::byte> page_;
};

}
