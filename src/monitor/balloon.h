#pragma once
// The balloon of a machine: the device, the way its pages go back to the host, and the question of
// how the guest stands with its memory. Belongs to the loop's thread.

#include <atomic>
#include <functional>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/proto/memory_use.h"
#include "mvm/virtio/balloon.h"

#include "device_slot.h"

namespace mvm::monitor {

// Gives pages of guest memory back to the host; they read as zeros when they are next touched.
class HostPages : public virtio::PageSink {
 public:
  void release(std::span<std::byte> pages) noexcept override;
  uint64_t released() const noexcept { return released_; }  // bytes

 private:
  uint64_t released_ = 0;
};

class MemoryBalloon {
 public:
  // The guest is given so long to answer before what it said last has to do.
  static constexpr std::chrono::milliseconds kPatience{2000};

  // `on_use` answers every ask(), once each time that one was made while none was pending.
  MemoryBalloon(loop::Loop& loop, const memory::GuestMemory& memory,
                std::function<void(const proto::MemoryUse&)> on_use);

  virtio::Device& device() { return device_; }
  // Before the machine starts: serves the device's queues on the loop.
  void attach(DeviceSlot& slot);

  void set_target(uint64_t bytes);
  void ask();

 private:
  void on_kick(uint16_t queue);
  void answer();

  loop::Loop* loop_;
  std::function<void(const proto::MemoryUse&)> on_use_;
  HostPages pages_;
  virtio::Balloon device_;
  DeviceSlot* slot_ = nullptr;
  std::vector<loop::Watch> watches_;
  loop::Watch patience_;  // set while an answer is owed
};

}
