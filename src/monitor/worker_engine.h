#pragma once
// The engine that needs nothing special of the host: a few threads, each of which carries out one
// operation at a time with plain system calls.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "disk_engine.h"

namespace mvm::monitor {

class WorkerEngine : public DiskEngine {
 public:
  // As many operations as these are under way at a time.
  static constexpr size_t kWorkers = 4;

  explicit WorkerEngine(sys::Fd file);
  ~WorkerEngine() override;

  void start_threads(const ThreadStart& start) override;
  void submit(const virtio::BlockOperation& operation) noexcept override;
  [[nodiscard]] bool commit() noexcept override;
  size_t take_answers(std::span<DiskAnswer> into) noexcept override;
  int event_fd() const noexcept override { return answered_.get(); }
  void drain() noexcept override;

 private:
  void work() noexcept;
  virtio::BlockResult run(virtio::BlockOperation& operation) const noexcept;

  sys::Fd file_;
  sys::Fd answered_;
  std::vector<virtio::BlockOperation> submitted_;  // the disk's thread's own
  std::mutex mutex_;                               // guards what follows
  std::condition_variable wanted_;
  std::condition_variable idle_;
  std::deque<virtio::BlockOperation> waiting_;
  std::deque<DiskAnswer> answers_;
  size_t running_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}
