#pragma once
// Guest writes that KVM keeps for later (KVM_CAP_COALESCED_MMIO, api.rst 4.116): a write to a range
// given to Vm::coalesce_writes() does not leave the guest for our process; KVM appends it to a ring
// that is looked at after the next exit, whichever vCPU's that is. For registers whose writes
// matter only once another register is touched.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "mvm/base/bytes.h"

namespace mvm::kvm {

// The consumer's side. Not locked: empty() from any thread, the rest from one at a time.
class CoalescedWrites {
 public:
  // No ring: always empty.
  CoalescedWrites() = default;
  // One page, shared with KVM (struct kvm_coalesced_mmio_ring), which outlives this.
  explicit CoalescedWrites(std::span<std::byte> page);

  struct Write {
    uint64_t address = 0;
    std::array<std::byte, 8> data{};
    size_t length = 0;
    ByteView bytes() const noexcept { return ByteView(data).first(length); }
  };
  // A write that came before an exit of the same vCPU is here after that exit.
  bool empty() const noexcept;
  // The oldest; it stays until pop(), so that a thread which sees "empty" sees the effects of what
  // was here.
  std::optional<Write> front() const noexcept;
  void pop() noexcept;
  // Takes all writes to `address` out, oldest first, wherever they stand.
  void take(uint64_t address, const std::function<void(ByteView data)>& apply);

 private:
  void skip_taken() noexcept;

  std::span<std::byte> page_;
};

}
