#pragma once
// The engine on io_uring (through liburing): many operations with one system call, and those that
// the page cache can serve are done when that call returns.
//
// What a ring may do passes by the seccomp filter, so the ring has a filter of its own: it was
// restricted to reading, writing, syncing and allocating its one registered file before it was
// enabled (IORING_REGISTER_RESTRICTIONS), and cannot be widened.

#include <array>

#include <liburing.h>

#include "disk_engine.h"

namespace mvm::monitor {

class UringEngine : public DiskEngine {
 public:
  // Throws SystemError where the host has no io_uring, or forbids it.
  explicit UringEngine(sys::Fd file);
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  void start_threads(const ThreadStart&) override {}
  void submit(const virtio::BlockOperation& operation) noexcept override;
  [[nodiscard]] bool commit() noexcept override;
  size_t take_answers(std::span<DiskAnswer> into) noexcept override;
  int event_fd() const noexcept override { return ring_.ring_fd; }
  void drain() noexcept override;

 private:
  struct Pending {
    virtio::BlockOperation operation;  // what is left of it
    int attempts = 0;                  // in a row that came to nothing
  };
  void prepare(Pending& pending) noexcept;
  // The answer, or nothing when there is more to do for it.
  std::optional<virtio::BlockResult> judge(Pending& pending, int result) noexcept;

  sys::Fd file_;
  io_uring ring_{};
  size_t in_flight_ = 0;
  std::array<Pending, virtio::Block::kMaxInFlight> pending_;  // by tag
};

}
