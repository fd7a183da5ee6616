#pragma once
// How many names a sandbox may have looked up, whoever asks for it: the guest's own queries, and
// requests that name their server.

#include <optional>

#include "mvm/dns/name.h"
#include "mvm/egress/proxy.h"

#include "token_bucket.h"

namespace mvm::egress {

class NameGate {
 public:
  explicit NameGate(const Limits& limits) : rate_(limits.queries_per_second) {}

  // Why this one may not be; nothing: it may.
  std::optional<policy::Reason> refuses(loop::Clock::time_point now) noexcept {
    if (rate_.take(1, now) == 0) return policy::Reason::RateLimited;
    return std::nullopt;
  }

 private:
  TokenBucket rate_;
};

}
