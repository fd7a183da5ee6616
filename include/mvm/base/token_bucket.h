#pragma once
// A rate: so much a second, and as much at once after a quiet second.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace mvm {

class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // 0: no limit.
  explicit TokenBucket(uint64_t per_second) : rate_(per_second), tokens_(per_second) {}

  bool unlimited() const noexcept { return rate_ == 0; }
  // As many of `wanted` as there are.
  uint64_t take(uint64_t wanted, Time now) noexcept {
    if (unlimited()) return wanted;
    refill(now);
    const uint64_t taken = std::min(wanted, tokens_);
    tokens_ -= taken;
    return taken;
  }
  // Of what was taken and not used.
  void give_back(uint64_t unused) noexcept {
    if (!unlimited()) tokens_ = std::min(rate_, tokens_ + unused);
  }

 private:
  void refill(Time now) noexcept {
    using Seconds = std::chrono::duration<double>;
    const double elapsed = std::min(Seconds(now - last_).count(), 1.0);
    const auto fresh = static_cast<uint64_t>(elapsed * static_cast<double>(rate_));
    if (fresh == 0) return;  // what is left of a token stays in the clock
    last_ = now;
    tokens_ = std::min(rate_, tokens_ + fresh);
  }

  uint64_t rate_;
  uint64_t tokens_;
  Time last_;
};

}
