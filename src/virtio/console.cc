#include "mvm/virtio/console.h"

#include <algorithm>
#include <utility>

#include "serve.h"

namespace mvm::virtio {
namespace {

constexpr unsigned kFeatureSize = 0;  // §5.3.3
constexpr uint16_t kQueueSizes[] = {kMaxQueueSize, kMaxQueueSize};

}

Console::Console(ConsoleSink& sink, uint16_t columns, uint16_t rows) noexcept : sink_(sink) {
  config_ = {.columns = columns, .rows = rows, .max_ports = 1, .emergency_write = 0};
}

Features Console::features() const noexcept { return Features().with(kFeatureSize); }
std::span<const uint16_t> Console::queue_sizes() const noexcept { return kQueueSizes; }
ByteView Console::config() const noexcept { return std::as_bytes(std::span(&config_, 1)); }

void Console::activate(QueueSet queues, Features negotiated) noexcept {
  queues_ = queues;
  reports_size_ = negotiated.has(kFeatureSize);
}

void Console::reset() noexcept {
  queues_ = {};
  reports_size_ = false;
  input_length_ = 0;
  effects_ = {};
}

Progress Console::process(uint16_t index) noexcept {
  Queue* queue = queue_at(queues_, index);
  if (queue == nullptr) return Progress::Idle;
  if (index == kReceiveQueue) {
    deliver_input();
    return Progress::Idle;
  }
  return serve_queue(
      *queue, chain_, kRequestsPerTurn, effects_,
      [this](const Chain& chain) { return emit(chain); }, [] { return false; });
}

uint32_t Console::emit(const Chain& chain) noexcept {
  for (const iovec& segment : chain.reader().gather(kMaxOutputBytes, segments_))
    sink_.write({static_cast<const std::byte*>(segment.iov_base), segment.iov_len});
  return 0;
}

size_t Console::input(ByteView data) noexcept {
  const ByteView taken = data.first(std::min(data.size(), input_space()));
  std::ranges::copy(taken, input_.begin() + static_cast<ptrdiff_t>(input_length_));
  input_length_ += taken.size();
  deliver_input();
  return taken.size();
}

// At most kInputCapacity bytes, so at most so many chains with room: no further budget is needed.
// A chain without room for a byte would be given back for ever, hence it is a fault.
void Console::deliver_input() noexcept {
  Queue* queue = queue_at(queues_, kReceiveQueue);
  if (queue == nullptr) return;
  for (bool looked_again = false; input_length_ > 0;) {
    const auto popped = queue->pop(chain_);
    if (!popped) {
      effects_.fault = popped.error();
      break;
    }
    if (!*popped) {
      // Once is enough for an index that only moves forwards.
      if (!queue->enable_notifications() || std::exchange(looked_again, true)) break;
      continue;
    }
    if (chain_.writable_length() == 0) {
      effects_.fault = QueueFault::BufferTooSmall;
      break;
    }
    const size_t written = chain_.writer().write(std::span(input_).first(input_length_));
    queue->push(chain_.head(), static_cast<uint32_t>(written));
    std::copy(input_.begin() + static_cast<ptrdiff_t>(written),
              input_.begin() + static_cast<ptrdiff_t>(input_length_), input_.begin());
    input_length_ -= written;
  }
  if (queue->should_notify()) effects_.used_buffers = true;
}

void Console::resize(uint16_t columns, uint16_t rows) noexcept {
  config_.columns = columns;
  config_.rows = rows;
  if (reports_size_) effects_.config_changed = true;
}

}
