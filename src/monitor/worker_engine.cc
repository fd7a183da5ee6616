#include "worker_engine.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::monitor {

using virtio::BlockOperation;
using virtio::BlockResult;
using virtio::BlockVerb;

WorkerEngine::WorkerEngine(sys::Fd file) : file_(std::move(file)), answered_(sys::event_fd()) {
  submitted_.reserve(virtio::Block::kMaxInFlight);
}

WorkerEngine::~WorkerEngine() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerEngine::start_threads(const ThreadStart& start) {
  for (size_t i = 0; i < kWorkers; ++i)
    threads_.emplace_back([this, start] {
      try {
        start.confine();
      } catch (const Error& error) {
        return start.on_failure(error.message());
      }
      work();
    });
}

void WorkerEngine::submit(const BlockOperation& operation) noexcept {
  submitted_.push_back(operation);
}

bool WorkerEngine::commit() noexcept {
  if (submitted_.empty()) return true;
  const size_t count = submitted_.size();
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), submitted_.begin(), submitted_.end());
  }
  submitted_.clear();
  for (size_t i = 0; i < std::min(count, kWorkers); ++i) wanted_.notify_one();
  return true;
}

size_t WorkerEngine::take_answers(std::span<DiskAnswer> into) noexcept {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(into.size(), answers_.size());
  std::copy_n(answers_.begin(), count, into.begin());
  answers_.erase(answers_.begin(), answers_.begin() + static_cast<std::ptrdiff_t>(count));
  if (count > 0 && answers_.empty()) sys::drain_event(answered_.get());
  return count;
}

void WorkerEngine::drain() noexcept {
  submitted_.clear();
  std::unique_lock lock(mutex_);
  waiting_.clear();
  idle_.wait(lock, [this] { return running_ == 0; });
  answers_.clear();
  sys::drain_event(answered_.get());
}

void WorkerEngine::work() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (ended_) return;
    BlockOperation operation = waiting_.front();
    waiting_.pop_front();
    ++running_;
    lock.unlock();
    const BlockResult result = run(operation);
    lock.lock();
    --running_;
    answers_.push_back({operation.tag, result});
    // Signalled under the lock, so that it says what take_answers() will find.
    if (answers_.size() == 1) sys::signal_event(answered_.get());
    if (running_ == 0) idle_.notify_all();
  }
}

// ---- one operation --------------------------------------------------------------------------

// Calls `transfer` until all segments have moved: the kernel may move less than asked for.
template <typename Transfer>
static BlockResult move_all(BlockOperation& operation, Transfer transfer) noexcept {
  while (!operation.segments.empty()) {
    const ssize_t moved = sys::uninterrupted([&] {
      return transfer(operation.segments.data(), static_cast<int>(operation.segments.size()),
                      static_cast<off_t>(operation.offset));
    });
    // Zero is the end of the file: a disk file that was made shorter behind our back.
    if (moved <= 0) return BlockResult::Failed;
    operation.offset += static_cast<uint64_t>(moved);
    drop_front(operation.segments, static_cast<size_t>(moved));
  }
  return BlockResult::Ok;
}

static int allocate(int file, int mode, const BlockOperation& operation) noexcept {
  return sys::uninterrupted([&] {
    return ::fallocate(file, mode | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(operation.offset),
                       static_cast<off_t>(operation.length));
  });
}

BlockResult WorkerEngine::run(BlockOperation& operation) const noexcept {
  const auto outcome = [](int result) {
    return result == 0 ? BlockResult::Ok : BlockResult::Failed;
  };
  switch (operation.verb) {
    case BlockVerb::Read:
      return move_all(operation, [this](const iovec* segments, int count, off_t at) {
        return ::preadv(file_.get(), segments, count, at);
      });
    case BlockVerb::Write:
      return move_all(operation, [this](const iovec* segments, int count, off_t at) {
        return ::pwritev(file_.get(), segments, count, at);
      });
    case BlockVerb::Flush:
      return outcome(sys::uninterrupted([this] { return ::fdatasync(file_.get()); }));
    case BlockVerb::Zero:
      if (allocate(file_.get(), FALLOC_FL_ZERO_RANGE, operation) == 0) return BlockResult::Ok;
      // Not every file system can keep the space; a hole reads as zeros as well.
      if (errno != EOPNOTSUPP) return BlockResult::Failed;
      [[fallthrough]];
    case BlockVerb::Discard:
      return outcome(allocate(file_.get(), FALLOC_FL_PUNCH_HOLE, operation));
  }
  return BlockResult::Failed;
}

}
