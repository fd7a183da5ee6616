#pragma once
// Only so many sandboxes start at once: a boot is a burst of work, and fifty at a time make each of
// them miss its own deadline. Whoever comes later waits, in the order of coming.

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

#include "mvm/sys/fd.h"

namespace mvm::daemon {

class StartQueue {
 public:
  // The right to start; dropping it lets the next one go. Must not outlive its queue.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(StartQueue* queue) : queue_(queue) {}
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(queue_, other.queue_);
      return *this;
    }
    ~Turn() {
      if (queue_ != nullptr) queue_->finished();
    }

   private:
    StartQueue* queue_ = nullptr;
  };

  // `interrupt` is borrowed: waits end with Error{Unavailable} once it is readable.
  StartQueue(size_t at_once, int interrupt) : free_(at_once), interrupt_(interrupt) {}

  // Blocks until it is the caller's turn. `moot` is called whenever wake() was, and may throw to
  // give up. Error{Timeout} after `limit`.
  Turn wait(std::chrono::milliseconds limit, const std::function<void()>& moot);
  // Somebody's reason to wait may be gone.
  void wake();

 private:
  struct Waiter {
    sys::Fd event;
    bool chosen = false;  // guarded by mutex_, as the list is
  };
  bool chosen(const Waiter& waiter);
  void refuse_if_interrupted() const;
  void finished() noexcept;

  std::mutex mutex_;
  size_t free_;
  std::list<Waiter*> waiting_;
  int interrupt_;
};

}
