#include "balloon.h"

#include <sys/epoll.h>
#include <sys/mman.h>

namespace mvm::monitor {

void HostPages::release(std::span<std::byte> pages) noexcept {
  // Guest memory is private and anonymous, so this frees the pages. Nothing but locked memory makes
  // it fail, and then the pages just stay; `released` tells.
  if (::madvise(pages.data(), pages.size(), MADV_DONTNEED) == 0) released_ += pages.size();
}

MemoryBalloon::MemoryBalloon(loop::Loop& loop, const memory::GuestMemory& memory,
                             std::function<void(const proto::MemoryUse&)> on_use)
    : loop_(&loop),
      on_use_(std::move(on_use)),
      device_(memory, pages_, memory.backing() == memory::Backing::Anonymous) {}

void MemoryBalloon::attach(DeviceSlot& slot) {
  slot_ = &slot;
  for (uint16_t queue = 0; queue < slot.kick_fds().size(); ++queue)
    watches_.push_back(loop_->watch(slot.kick_fds()[queue].get(), EPOLLIN,
                                    [this, queue](uint32_t) { on_kick(queue); }));
}

void MemoryBalloon::on_kick(uint16_t queue) {
  slot_->serve(queue);
  if (slot_->with_lock([this] { return device_.take_news(); }) && patience_) answer();
}

void MemoryBalloon::set_target(uint64_t bytes) {
  slot_->with_lock([&] { device_.set_target(bytes); });
}

void MemoryBalloon::ask() {
  if (patience_) return;
  patience_ = loop_->after(kPatience, [this] { answer(); });
  if (!slot_->with_lock([this] { return device_.request_statistics(); })) answer();
}

void MemoryBalloon::answer() {
  patience_.reset();
  using virtio::BalloonStatistic;
  on_use_(slot_->with_lock([this] {
    proto::MemoryUse use;
    use.guest_total = device_.statistic(BalloonStatistic::TotalMemory);
    use.guest_free = device_.statistic(BalloonStatistic::FreeMemory);
    use.guest_available = device_.statistic(BalloonStatistic::AvailableMemory);
    use.guest_caches = device_.statistic(BalloonStatistic::DiskCaches);
    use.balloon = device_.actual();
    use.balloon_target = device_.target();
    use.released = pages_.released();
    return use;
  }));
}

}
