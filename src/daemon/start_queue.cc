// The events are eventfds and not a condition variable because the daemon is told to stop from a
// signal handler, which may write to a descriptor and do little else.
#include "start_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>

#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

namespace mvm::daemon {

StartQueue::Turn StartQueue::wait(std::chrono::milliseconds limit,
                                  const std::function<void()>& moot) {
  using Clock = std::chrono::steady_clock;
  refuse_if_interrupted();
  Waiter waiter;
  {
    const std::lock_guard lock(mutex_);
    if (free_ > 0) {
      --free_;
      return Turn(this);
    }
    waiter.event = sys::event_fd();
    waiting_.push_back(&waiter);
  }
  // A turn that was given in the moment of giving up goes on to the next.
  ScopeExit leave([&] {
    {
      const std::lock_guard lock(mutex_);
      waiting_.remove(&waiter);
    }
    if (chosen(waiter)) finished();
  });
  const auto deadline = Clock::now() + limit;
  while (!chosen(waiter)) {
    moot();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw Error(Kind::Timeout, "its turn to start did not come");
    std::array<pollfd, 2> entries{pollfd{waiter.event.get(), POLLIN, 0},
                                  pollfd{interrupt_, POLLIN, 0}};
    const int ready = ::poll(entries.data(), entries.size(),
                             static_cast<int>(std::min<int64_t>(left, 3'600'000)));
    if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for a turn to start");
    if (ready > 0) refuse_if_interrupted();
    sys::drain_event(waiter.event.get());
  }
  // Also a turn that came free because of the stop: whoever held it gave up.
  refuse_if_interrupted();
  leave.release();
  return Turn(this);
}

// What began now would be left behind by the daemon, with nobody told of it.
void StartQueue::refuse_if_interrupted() const {
  pollfd entry{interrupt_, POLLIN, 0};
  if (::poll(&entry, 1, 0) > 0) throw Error(Kind::Unavailable, "the daemon is stopping");
}

bool StartQueue::chosen(const Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  return waiter.chosen;
}

void StartQueue::wake() {
  const std::lock_guard lock(mutex_);
  for (const Waiter* waiter : waiting_) sys::signal_event(waiter->event.get());
}

void StartQueue::finished() noexcept {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    ++free_;
    return;
  }
  Waiter* const next = waiting_.front();
  waiting_.pop_front();
  next->chosen = true;
  // Under the lock: the waiter frees its event once it has seen that it was chosen.
  sys::signal_event(next->event.get());
}

}
