#pragma once
// How a sandbox tells that what it is there for works: a command of its image that is run in it
// again and again (HEALTHCHECK of a Dockerfile), and what came of that.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr size_t kMaxHealthCommand = 4096;  // bytes of its words together
inline constexpr size_t kMaxHealthWords = 256;
// Of every time but the start period, which may be nothing.
inline constexpr uint64_t kMinHealthMs = 1'000;
inline constexpr uint64_t kMaxHealthMs = 24ULL * 3600 * 1000;
inline constexpr uint32_t kMaxHealthRetries = 1'000;
inline constexpr size_t kMaxHealthOutput = 4096;  // bytes that are kept of one check

// The values here are Docker's defaults.
struct HealthCheck {
  std::vector<std::string> command;  // empty: nothing is run
  uint64_t interval_ms = 30'000;     // from the end of a check to the next
  uint64_t timeout_ms = 30'000;      // of one check
  uint64_t start_period_ms = 0;  // until then a failure is not counted, before the first success
  uint64_t start_interval_ms = 5'000;  // in place of the interval, in that time
  uint32_t retries = 3;                // so many failures in a row make it unhealthy
  bool operator==(const HealthCheck&) const = default;

  // What is wrong with it, with the name of the member: "interval_ms must be …".
  std::optional<std::string> complaint() const;
  Bytes encode() const;
  static std::optional<HealthCheck> decode(ByteView item) noexcept;
};

enum class Health { Starting, Healthy, Unhealthy };
std::string_view health_name(Health health);
std::optional<Health> health_from_name(std::string_view name);

struct HealthResult {
  uint64_t ended_unix_ms = 0;
  std::optional<uint8_t> exit_code;  // nothing when it did not come to one
  std::string why;                   // then, for people
  std::string output;                // the first of it; the guest's bytes
  bool operator==(const HealthResult&) const = default;
};

struct HealthStatus {
  Health health = Health::Starting;
  uint32_t failures = 0;  // in a row
  uint64_t checks = 0;    // that came to a result
  std::optional<HealthResult> last;
  bool operator==(const HealthStatus&) const = default;

  Bytes encode() const;
  static std::optional<HealthStatus> decode(ByteView item) noexcept;
};

}
