#pragma once
// The memory balloon (virtio 1.2 §5.5): by three ways pages that the guest does not use go back to
// the host, and the guest says how it stands with its memory.
//
//   inflate     the guest gives pages up because the host set a target, and takes them back
//               (deflate) when the target falls, or before it would run out of memory
//   reporting   the guest names free pages as they become free, and may use them again unasked
//   statistics  the driver leaves a buffer that the host returns when it wants figures
//
// A page given up reads as zeros when it is touched again, and costs nothing until then; so nothing
// is done about deflation, and the driver need not wait for it (MUST_TELL_HOST is not offered).
// Figures are the guest's word, for people to read.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "mvm/memory/guest_memory.h"
#include "mvm/virtio/device.h"

namespace mvm::virtio {

// Where pages go that the guest does not need.
class PageSink {
 public:
  virtual ~PageSink() = default;
  // Whole pages of guest memory whose contents are of no use, one run at a time.
  virtual void release(std::span<std::byte> pages) noexcept = 0;
};

// §5.5.6.4: tags; Linux has added those from OomKill on.
enum class BalloonStatistic : uint16_t {
  SwapIn,
  SwapOut,
  MajorFaults,
  MinorFaults,
  FreeMemory,
  TotalMemory,
  AvailableMemory,
  DiskCaches,
  HugePageAllocations,
  HugePageFailures,
  OomKills,
  Count,
};

class Balloon : public Device {
 public:
  static constexpr uint64_t kPage =
      4096;  // what page numbers count, whatever the guest's pages are
  // Of one inflate request so many pages are looked at, and the rest stays where it is; drivers
  // send 256.
  static constexpr size_t kMaxPages = 1024;
  static constexpr uint32_t kRequestsPerTurn = 8;
  static constexpr size_t kMaxStatistics = 64;  // entries of one buffer

  // Both must outlive the device. `reporting`: whether to ask for free pages.
  Balloon(const memory::GuestMemory& memory, PageSink& sink, bool reporting) noexcept
      : memory_(memory), sink_(sink), reporting_(reporting) {}

  // How much the guest is to give up, in bytes, rounded down to pages, at most its whole memory.
  // Call settle() of the transport afterwards, as after request_statistics().
  void set_target(uint64_t bytes) noexcept;
  uint64_t target() const noexcept { return uint64_t{config_.wanted_pages} * kPage; }
  // What the driver says that it has given up.
  uint64_t actual() const noexcept;

  // Asks for new figures. False when there is no driver to give any.
  bool request_statistics() noexcept;
  // True once after each arrival of figures.
  bool take_news() noexcept { return std::exchange(news_, false); }
  std::optional<uint64_t> statistic(BalloonStatistic which) const noexcept {
    return statistics_.at(static_cast<size_t>(which));
  }

  DeviceId id() const noexcept override { return DeviceId::Balloon; }
  Features features() const noexcept override;
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override;
  void write_config(uint64_t offset, ByteView data) noexcept override;
  void activate(QueueSet queues, Features negotiated) noexcept override;
  void reset() noexcept override;
  Progress process(uint16_t queue) noexcept override;
  Effects take_effects() noexcept override { return effects_.take(); }

 private:
  // §5.5.4
  struct Config {
    uint32_t wanted_pages;
    uint32_t actual_pages;  // the driver writes it
    uint32_t free_page_hint_command;
    uint32_t poison;  // the driver writes it
  };
  enum class Role : uint8_t { Inflate, Deflate, Statistics, Reporting };

  std::optional<Role> role_of(uint16_t queue) const noexcept;
  void give_up(const Chain& chain) noexcept;
  void release_run(uint64_t first_page, uint64_t pages) noexcept;
  void report(const Chain& chain) noexcept;
  Progress hold_statistics(Queue& queue) noexcept;
  void read_statistics(const Chain& chain) noexcept;

  const memory::GuestMemory& memory_;
  PageSink& sink_;
  bool reporting_;
  Config config_{};
  QueueSet queues_;
  Features negotiated_;
  Effects effects_;
  Chain chain_;
  std::array<iovec, kMaxQueueSize> segments_;
  std::array<uint32_t, kMaxPages> pages_;
  // The buffer that waits for request_statistics(), and its queue.
  std::optional<uint16_t> held_;
  uint16_t held_queue_ = 0;
  bool news_ = false;
  std::array<std::optional<uint64_t>, static_cast<size_t>(BalloonStatistic::Count)> statistics_;
};

}
