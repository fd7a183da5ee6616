#include "mvm/virtio/balloon.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "serve.h"

namespace mvm::virtio {
namespace {

// §5.5.3
constexpr unsigned kFeatureStatistics = 1;
constexpr unsigned kFeatureDeflateOnOom = 2;
constexpr unsigned kFeaturePagePoison = 4;
constexpr unsigned kFeatureReporting = 5;

constexpr uint16_t kQueueSizes[] = {kMaxQueueSize, kMaxQueueSize, kMaxQueueSize, kMaxQueueSize};

struct [[gnu::packed]] StatisticEntry {
  uint16_t tag;
  uint64_t value;
};
static_assert(sizeof(StatisticEntry) == 10);

}

Features Balloon::features() const noexcept {
  const Features always = Features().with(kFeatureStatistics).with(kFeatureDeflateOnOom);
  // Linux reports free pages only where it can say what they must hold (§5.5.6.5).
  return reporting_ ? always.with(kFeaturePagePoison).with(kFeatureReporting) : always;
}

std::span<const uint16_t> Balloon::queue_sizes() const noexcept {
  return std::span(kQueueSizes).first(reporting_ ? 4 : 3);
}

ByteView Balloon::config() const noexcept { return std::as_bytes(std::span(&config_, 1)); }

void Balloon::write_config(uint64_t offset, ByteView data) noexcept {
  if (data.size() != sizeof(uint32_t)) return;
  uint32_t value = 0;
  std::memcpy(&value, data.data(), sizeof value);
  if (offset == offsetof(Config, actual_pages)) config_.actual_pages = value;
  if (offset == offsetof(Config, poison)) config_.poison = value;
}

void Balloon::activate(QueueSet queues, Features negotiated) noexcept {
  queues_ = queues;
  negotiated_ = negotiated;
}

// The target is the host's and stays; everything else was the driver's.
void Balloon::reset() noexcept {
  queues_ = {};
  negotiated_ = {};
  effects_ = {};
  held_.reset();
  news_ = false;
  statistics_ = {};
  config_.actual_pages = config_.poison = 0;
}

void Balloon::set_target(uint64_t bytes) noexcept {
  config_.wanted_pages = static_cast<uint32_t>(std::min<uint64_t>(bytes, memory_.size()) / kPage);
  effects_.config_changed = true;
}

uint64_t Balloon::actual() const noexcept {
  return std::min(uint64_t{config_.actual_pages} * kPage, memory_.size());
}

// Queues of features that were not agreed on do not exist, and those behind move up: so Linux
// numbers them, and so do other devices.
std::optional<Balloon::Role> Balloon::role_of(uint16_t queue) const noexcept {
  if (queue < 2) return queue == 0 ? Role::Inflate : Role::Deflate;
  uint16_t next = 2;
  if (negotiated_.has(kFeatureStatistics) && queue == next++) return Role::Statistics;
  if (negotiated_.has(kFeatureReporting) && queue == next) return Role::Reporting;
  return std::nullopt;
}

Progress Balloon::process(uint16_t index) noexcept {
  Queue* queue = queue_at(queues_, index);
  const auto role = role_of(index);
  if (queue == nullptr || !role) return Progress::Idle;
  if (*role == Role::Statistics) {
    held_queue_ = index;
    return hold_statistics(*queue);
  }
  return serve_queue(
      *queue, chain_, kRequestsPerTurn, effects_,
      [this, role](const Chain& chain) {
        if (*role == Role::Inflate) give_up(chain);
        if (*role == Role::Reporting) report(chain);
        return uint32_t{0};
      },
      [] { return false; });
}

// ---- pages --------------------------------------------------------------------------------------

// Neighbours go together: one call to the host for a run of pages, not one a page. Page numbers
// that are none of this guest's are passed over.
void Balloon::give_up(const Chain& chain) noexcept {
  ChainReader reader = chain.reader();
  size_t count = 0;
  for (size_t seen = 0; seen < kMaxPages; ++seen) {
    const auto page = reader.read_value<uint32_t>();
    if (!page) break;
    if (memory_.slice({*page * kPage}, kPage)) pages_.at(count++) = *page;
  }
  const auto pages = std::span(pages_).first(count);
  std::ranges::sort(pages);
  for (size_t i = 0; i < count;) {
    const uint64_t first = pages[i];
    uint64_t end = first + 1;
    for (++i; i < count && pages[i] <= end; ++i)
      if (pages[i] == end) ++end;
    release_run(first, end - first);
  }
}

void Balloon::release_run(uint64_t first_page, uint64_t pages) noexcept {
  // Regions do not touch, so pages that all exist and follow one another are of one region.
  if (const auto bytes = memory_.slice({first_page * kPage}, pages * kPage)) sink_.release(*bytes);
}

// The pages are the buffer itself (§5.5.6.6). They must read as zeros, or as before: where free
// pages are to hold something else, they stay.
void Balloon::report(const Chain& chain) noexcept {
  if (negotiated_.has(kFeaturePagePoison) && config_.poison != 0) return;
  const ChainWriter writer = chain.writer();
  for (const iovec& segment : writer.gather(writer.remaining(), segments_)) {
    const auto start = reinterpret_cast<uintptr_t>(segment.iov_base);
    const uintptr_t first = (start + kPage - 1) / kPage * kPage;
    const uintptr_t end = (start + segment.iov_len) / kPage * kPage;
    if (first < end)
      sink_.release(
          std::span(static_cast<std::byte*>(segment.iov_base) + (first - start), end - first));
  }
}

// ---- statistics ---------------------------------------------------------------------------------

bool Balloon::request_statistics() noexcept {
  Queue* queue = queue_at(queues_, held_queue_);
  // Without a buffer of the driver's the figures are on their way.
  if (queue == nullptr || !negotiated_.has(kFeatureStatistics)) return false;
  if (!held_) return true;
  queue->push(*std::exchange(held_, std::nullopt), 0);
  if (queue->should_notify()) effects_.used_buffers = true;
  return true;
}

Progress Balloon::hold_statistics(Queue& queue) noexcept {
  for (uint32_t budget = kRequestsPerTurn; budget > 0; --budget) {
    const auto popped = queue.pop(chain_);
    if (!popped) {
      effects_.fault = popped.error();
      return Progress::Idle;
    }
    if (!*popped) {
      if (!queue.enable_notifications()) return Progress::Idle;
      continue;
    }
    // A driver has one; of several the latest counts.
    if (held_) {
      queue.push(*held_, 0);
      if (queue.should_notify()) effects_.used_buffers = true;
    }
    held_ = chain_.head();
    read_statistics(chain_);
  }
  return Progress::More;
}

void Balloon::read_statistics(const Chain& chain) noexcept {
  statistics_ = {};
  ChainReader reader = chain.reader();
  for (size_t i = 0; i < kMaxStatistics; ++i) {
    const auto entry = reader.read_value<StatisticEntry>();
    if (!entry) break;
    const uint16_t tag = entry->tag;  // copies: the fields are not aligned
    const uint64_t value = entry->value;
    if (tag < statistics_.size()) statistics_.at(tag) = value;
  }
  news_ = true;
}

}
