// The disk: what was written is synced beside those who write.
#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "mvm/audit/writer.h"
#include "mvm/sys/error.h"
#include "mvm/sys/uninterrupted.h"

#include "outcome.h"

namespace mvm::audit {

Writer::Clock::time_point Writer::sync_time() const {
  if (!dirty() || disk_failed_) return Clock::time_point::max();
  return options_.sync == Sync::Strict ? dirty_since_ : dirty_since_ + options_.delay;
}

Writer::Result Writer::sync(Lock& lock) {
  const uint64_t target = written_;
  std::vector<std::shared_ptr<sys::Fd>> files;
  files.swap(left_);
  files.push_back(file_);
  lock.unlock();
  int error = 0;
  for (const auto& file : files)
    if (sys::uninterrupted([&] { return ::fdatasync(file->get()); }) != 0) error = errno;
  lock.lock();
  // The kernel may have dropped what it could not write (fsync(2), EIO): from here on nobody knows
  // what the disk has, so this writer is done.
  if (error != 0) {
    disk_failed_ = true;
    synced_.notify_all();
    return fail("syncing the audit log of " + log_.text() + ": " + sys::errno_text(error), true);
  }
  if (on_disk_ < target) on_disk_ = target;
  dirty_since_ = Clock::now();
  synced_.notify_all();
  return std::nullopt;
}

Writer::Result Writer::await_disk(Lock& lock, uint64_t ticket) {
  if (!started_) return sync(lock);
  work_.notify_one();
  synced_.wait(lock, [&] { return on_disk_ >= ticket || disk_failed_ || stopping_; });
  if (on_disk_ >= ticket) return std::nullopt;
  return disk_failed_ ? failure_ : Failure{"the audit log's writer is ending"};
}

void Writer::tell(Lock& lock) {
  const auto news = std::exchange(news_, {});
  lock.unlock();
  for (const auto& each : news) each();
}

void Writer::run() {
  Lock lock(mutex_);
  while (!stopping_) {
    const auto checkpoint = since_checkpoint_ != 0 && !failure_ && !closed_
                                ? last_checkpoint_ + options_.checkpoint_time
                                : Clock::time_point::max();
    const auto wake = std::min(sync_time(), checkpoint);
    if (Clock::now() < wake) {
      // wait_until() of the end of time overflows in the library.
      if (wake == Clock::time_point::max())
        work_.wait(lock);
      else
        work_.wait_until(lock, wake);
      continue;
    }
    if (sync_time() <= Clock::now())
      sync(lock);  // what fails is told by fail()
    else
      set_checkpoint_if_due();
    std::vector<Waiting> ready;
    std::erase_if(waiting_, [&](Waiting& each) {
      if (!disk_failed_ && each.ticket > on_disk_) return false;
      ready.push_back(std::move(each));
      return true;
    });
    const Result failure = failure_;
    const uint64_t on_disk = on_disk_;
    tell(lock);
    for (const Waiting& each : ready)
      each.done(each.ticket <= on_disk ? Outcome(Recorded()) : outcome_of(failure));
    lock.lock();
  }
  synced_.notify_all();
}

}
