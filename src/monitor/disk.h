#pragma once
// One disk: the device core, the engine behind it, and the thread that both belong to.
//
// The thread sleeps until the driver kicks, the engine has answers, a limit admits the next
// request, or somebody has a task for it. Whatever changes the device's status runs on this thread
// too, so that a reset finds no other hand on the engine, and waits for its last operation there.

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "mvm/virtio/block.h"

#include "device_slot.h"
#include "disk_engine.h"

namespace mvm::monitor {

class Disk {
 public:
  // `settings.capacity` and `.discard` are found out from the file. io_uring if the host lets us.
  // Throws SystemError.
  Disk(sys::Fd file, virtio::BlockSettings settings);
  // Ends the threads, if they were started. Not while the guest runs.
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  virtio::Block& device() { return device_; }
  EngineKind engine_kind() const { return kind_; }
  // `slot` is the device's, and outlives the disk's thread.
  void attach(DeviceSlot& slot);
  // Starts the threads: the disk's own, and the engine's.
  void start(const ThreadStart& own, const ThreadStart& engine);

 private:
  void run();
  void wait();
  void serve();
  void run_tasks();
  // Runs `task` on the disk's thread and returns when it is done; not from that thread.
  void perform(const std::function<void()>& task);

  EngineKind kind_ = EngineKind::IoUring;
  std::unique_ptr<DiskEngine> engine_;
  virtio::Block device_;
  DeviceSlot* slot_ = nullptr;
  bool uncommitted_ = false;
  bool ended_ = false;
  std::array<DiskAnswer, virtio::Block::kMaxInFlight> answers_;
  std::mutex mutex_;  // guards tasks_
  std::condition_variable done_;
  std::deque<const std::function<void()>*> tasks_;
  std::thread thread_;
};

}
