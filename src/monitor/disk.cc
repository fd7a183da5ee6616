#include "disk.h"

#include <algorithm>
#include <cerrno>

#include <poll.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::monitor {

using virtio::Progress;
using virtio::RateLimit;

// When the host has no memory for a request, it may have some after this.
static constexpr std::chrono::milliseconds kHostRetry{10};

static std::unique_ptr<DiskEngine> best_engine(const sys::Fd& file, EngineKind& kind) {
  try {
    return make_disk_engine(kind = EngineKind::IoUring, file.duplicate());
  } catch (const SystemError&) {
    // Not compiled in, kernel.io_uring_disabled, a container's seccomp filter, locked memory: the
    // workers need none of it.
    return make_disk_engine(kind = EngineKind::Workers, file.duplicate());
  }
}

static virtio::BlockSettings completed(virtio::BlockSettings settings, int file) {
  settings.capacity = sys::file_size(file);
  settings.discard = settings.access == virtio::Access::ReadWrite && can_make_holes(file);
  return settings;
}

Disk::Disk(sys::Fd file, virtio::BlockSettings settings)
    : engine_(best_engine(file, kind_)),
      device_(completed(std::move(settings), file.get()), *engine_) {}

Disk::~Disk() {
  if (!thread_.joinable()) return;
  const std::function<void()> end = [this] { ended_ = true; };
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(&end);
  }
  slot_->kick(0);
  thread_.join();
}

void Disk::attach(DeviceSlot& slot) {
  slot_ = &slot;
  slot.change_status_by([this](const std::function<void()>& change) { perform(change); });
}

void Disk::start(const ThreadStart& own, const ThreadStart& engine) {
  engine_->start_threads(engine);
  thread_ = std::thread([this, own] {
    try {
      own.confine();
      run();
    } catch (const Error& error) {
      own.on_failure(error.message());
    }
  });
}

void Disk::run() {
  while (!ended_) {
    wait();
    serve();
  }
}

void Disk::wait() {
  auto until = device_.resume_at();
  if (uncommitted_)
    until = std::min(until.value_or(RateLimit::Time::max()),
                     RateLimit::Time::clock::now() + kHostRetry);
  timespec left{};
  if (until) {
    const auto nanoseconds =
        std::max(*until - RateLimit::Time::clock::now(), std::chrono::nanoseconds(0));
    left.tv_sec = static_cast<time_t>(nanoseconds / std::chrono::seconds(1));
    left.tv_nsec = static_cast<long>((nanoseconds % std::chrono::seconds(1)).count());
  }
  const int kick = slot_->kick_fds().front().get();
  std::array<pollfd, 2> entries{{{kick, POLLIN, 0}, {engine_->event_fd(), POLLIN, 0}}};
  const int ready = ::ppoll(entries.data(), entries.size(), until ? &left : nullptr, nullptr);
  if (ready < 0 && errno != EINTR) throw SystemError(errno, "waiting for a disk's requests");
  if (ready > 0 && entries[0].revents != 0) sys::drain_event(kick);
}

// Goes round until there is nothing to do but wait: what the page cache serves is answered by the
// time that commit() returns, and those answers make room for more.
void Disk::serve() {
  for (bool more = true; more;) {
    run_tasks();
    const size_t count = engine_->take_answers(answers_);
    if (count > 0)
      slot_->with_lock([&] {
        for (const DiskAnswer& answer : std::span(answers_).first(count))
          device_.complete(answer.tag, answer.result);
      });
    const size_t before = device_.in_flight();
    const bool again = slot_->process(0) == Progress::More;
    more = again || count > 0 || device_.in_flight() > before;
    uncommitted_ = !engine_->commit();
  }
}

void Disk::run_tasks() {
  std::unique_lock lock(mutex_);
  while (!tasks_.empty()) {
    const std::function<void()>& task = *tasks_.front();
    lock.unlock();
    task();
    lock.lock();
    // Only now: whoever waits looks for its task here.
    tasks_.pop_front();
    done_.notify_all();
  }
}

void Disk::perform(const std::function<void()>& task) {
  std::unique_lock lock(mutex_);
  tasks_.push_back(&task);
  slot_->kick(0);
  done_.wait(lock, [&] { return std::ranges::find(tasks_, &task) == tasks_.end(); });
}

}
