#pragma once
// A device core with active queues and nothing else: what a transport would hand it, for tests and
// fuzz targets.

#include <optional>
#include <vector>

#include "mvm/memory/guest_memory.h"
#include "mvm/virtio/device.h"

#include "support/driver_queue.h"

namespace mvm::test {

class ActiveDevice {
 public:
  // Queues of `size` lie from `base` on, DriverQueue::kSpan apart.
  ActiveDevice(const memory::GuestMemory& memory, virtio::Device& device,
               virtio::Features extra = {}, uint16_t size = 16, uint64_t base = 0x10000)
      : device_(device) {
    const virtio::Features features(virtio::kRingFeatures.bits() | extra.bits());
    for (size_t index = 0; index < device.queue_sizes().size(); ++index) {
      drivers.emplace_back(memory, base + index * DriverQueue::kSpan, size);
      auto queue = virtio::Queue::activate(memory, drivers.back().registers(), features);
      MVM_ASSERT(queue);
      queues.emplace_back(std::move(*queue));
    }
    device.activate(queues, features);
  }
  ~ActiveDevice() { device_.reset(); }
  ActiveDevice(const ActiveDevice&) = delete;
  ActiveDevice& operator=(const ActiveDevice&) = delete;

  std::vector<DriverQueue> drivers;
  std::vector<std::optional<virtio::Queue>> queues;

 private:
  virtio::Device& device_;
};

}
