#include "mvm/virtio/rng.h"

#include <algorithm>

#include "serve.h"

namespace mvm::virtio {
namespace {

constexpr uint16_t kQueueSizes[] = {kMaxQueueSize};

}

std::span<const uint16_t> Rng::queue_sizes() const noexcept { return kQueueSizes; }

void Rng::activate(QueueSet queues, Features) noexcept { queues_ = queues; }

void Rng::reset() noexcept {
  queues_ = {};
  effects_ = {};
}

Progress Rng::process(uint16_t index) noexcept {
  Queue* queue = queue_at(queues_, index);
  if (queue == nullptr) return Progress::Idle;
  return serve_queue(
      *queue, chain_, kRequestsPerTurn, effects_,
      [this](const Chain& chain) { return fill(chain); }, [] { return false; });
}

uint32_t Rng::fill(const Chain& chain) noexcept {
  uint32_t written = 0;
  for (const iovec& segment : chain.writer().gather(kMaxRequestBytes, segments_)) {
    if (!source_.fill(std::span(static_cast<std::byte*>(segment.iov_base), segment.iov_len))) break;
    written += static_cast<uint32_t>(segment.iov_len);
  }
  return written;
}

}
