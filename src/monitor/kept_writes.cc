#include "kept_writes.h"

namespace mvm::monitor {

void KeptWrites::apply_all() {
  if (ring_.empty()) return;
  const std::lock_guard in_order(order_mutex_);
  while (true) {
    std::unique_lock on_ring(ring_mutex_);
    const auto write = ring_.front();
    if (!write) return;
    // An acknowledgement is applied before a device can look for it and find it gone.
    if (is_acknowledgement_(write->address)) {
      apply_(write->address, write->bytes());
    } else {
      on_ring.unlock();
      apply_(write->address, write->bytes());
      on_ring.lock();
    }
    ring_.pop();
  }
}

void KeptWrites::take_acknowledgements(uint64_t address) {
  if (ring_.empty()) return;
  const std::lock_guard on_ring(ring_mutex_);
  ring_.take(address, [&](ByteView data) { apply_(address, data); });
}

}
