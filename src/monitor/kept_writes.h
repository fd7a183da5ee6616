#pragma once
// The guest's register writes that KVM keeps until somebody looks (kvm/coalesced.h), and who looks:
// vCPU threads, which apply all of them in order after an exit, and devices, which fetch their
// InterruptACKs before they interrupt (virtio/mmio.h says why).

#include <functional>
#include <mutex>

#include "mvm/kvm/coalesced.h"

namespace mvm::monitor {

class KeptWrites {
 public:
  using Apply = std::function<void(uint64_t address, ByteView data)>;
  // `apply` may take a device's lock. It is called with `ring_mutex_` held for addresses of which
  // `is_acknowledgement` is true, and must need no lock for those.
  KeptWrites(std::function<bool(uint64_t address)> is_acknowledgement, Apply apply)
      : is_acknowledgement_(std::move(is_acknowledgement)), apply_(std::move(apply)) {}

  void attach(kvm::CoalescedWrites ring) { ring_ = ring; }
  // What vCPUs wrote before the exit at hand comes before it. Holds no device's lock.
  void apply_all();
  // The device's lock may be held.
  void take_acknowledgements(uint64_t address);

 private:
  std::function<bool(uint64_t address)> is_acknowledgement_;
  Apply apply_;
  kvm::CoalescedWrites ring_;
  std::mutex order_mutex_;  // one applies at a time; before any device's lock
  std::mutex ring_mutex_;   // taken last, around what touches the ring alone
};

}
