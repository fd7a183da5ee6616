#pragma once
// Counts what all flows of a sandbox carry, and says how much more they may.

#include <cstdint>

#include "mvm/base/token_bucket.h"
#include "mvm/egress/proxy.h"

namespace mvm::egress {

enum class Way : uint8_t { Send, Receive };  // as the guest sees it

class Meter {
 public:
  Meter(const Limits& limits, Counters& counters)
      : send_(limits.send_bytes_per_second),
        receive_(limits.receive_bytes_per_second),
        total_(limits.total_bytes),
        counters_(counters) {}

  // How many of `wanted` bytes may be read now; 0: try again in a while.
  size_t allow(Way way, size_t wanted, loop::Clock::time_point now) noexcept {
    return bucket(way).take(wanted, now);
  }
  // Of `allowed`, `used` bytes were read.
  void count(Way way, size_t allowed, size_t used) noexcept {
    bucket(way).give_back(allowed - used);
    (way == Way::Send ? counters_.sent : counters_.received) += used;
  }
  bool used_up() const noexcept {
    return total_ != 0 && counters_.sent + counters_.received >= total_;
  }

 private:
  TokenBucket& bucket(Way way) noexcept { return way == Way::Send ? send_ : receive_; }

  TokenBucket send_;
  TokenBucket receive_;
  uint64_t total_;
  Counters& counters_;
};

}
