#pragma once
// The loop that request-and-answer devices share: take chains, answer each at once, within a
// budget, with kicks off while busy and no chain missed when they are turned on again.

#include <cstdint>

#include "mvm/virtio/device.h"

namespace mvm::virtio {

inline Queue* queue_at(QueueSet queues, uint16_t index) noexcept {
  return index < queues.size() && queues[index] ? &*queues[index] : nullptr;
}

// `answer(chain)` returns the bytes written to the chain; `spent()` ends the turn early.
template <typename Answer, typename Spent>
Progress serve_queue(Queue& queue, Chain& chain, uint32_t budget, Effects& effects, Answer answer,
                     Spent spent) noexcept {
  Progress progress = Progress::Idle;
  queue.disable_notifications();
  for (;;) {
    const auto popped = queue.pop(chain);
    if (!popped) {
      effects.fault = popped.error();
      break;
    }
    if (!*popped) {
      if (!queue.enable_notifications()) break;
    } else {
      queue.push(chain.head(), answer(chain));
    }
    // Looking again costs budget too: a driver could move its index back and forth for ever.
    if (--budget == 0 || spent()) {
      progress = Progress::More;
      break;
    }
  }
  if (queue.should_notify()) effects.used_buffers = true;
  return progress;
}

}
