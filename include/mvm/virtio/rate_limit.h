#pragma once
// A token bucket, kept as one moment in time: the one up to which what was taken is paid for. It
// holds what comes together in a second, so that much may be taken at once after a rest. A taker is
// admitted while there is anything left and may take more than there is; the next one waits until
// that is paid off. So a request larger than the bucket passes, and over time the rate is exact.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace mvm::virtio {

class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Units per second; 0 is no limit.
  explicit RateLimit(uint64_t rate) noexcept : rate_(rate) {}

  // When a taker is admitted; the past when it is now.
  Time admitted_at() const noexcept { return paid_until_ - kBurst; }
  // At most 2^32 units, by one who is admitted at `now`.
  void take(uint64_t units, Time now) noexcept {
    if (rate_ == 0) return;
    paid_until_ = std::max(paid_until_, now) + std::chrono::nanoseconds(units * kSecond / rate_);
  }

 private:
  // Just less than a second, so that a bucket which is empty to the last unit admits nobody.
  static constexpr std::chrono::nanoseconds kBurst{999'999'999};
  static constexpr uint64_t kSecond = 1'000'000'000;

  uint64_t rate_;
  Time paid_until_;
};

}
