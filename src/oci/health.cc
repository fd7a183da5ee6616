#include "health.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::oci {

static constexpr const char* kWhere = "config.Healthcheck";

// A whole number from 0 up; 0 when it is absent.
static uint64_t number_of(const Json& check, const char* key) {
  const Json* value = member(check, key);
  if (value == nullptr) return 0;
  if (!value->is_number_unsigned() ||
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    throw Error(Kind::Invalid,
                std::string(kWhere) + "." + key + " must be a whole number and not below 0");
  return value->get<uint64_t>();
}

// Nanoseconds to milliseconds, within the bounds.
static uint64_t time_of(const Json& check, const char* key, uint64_t otherwise, uint64_t least) {
  constexpr uint64_t kNanoseconds = 1'000'000;
  const uint64_t value = number_of(check, key);
  if (value == 0) return otherwise;
  return std::clamp(value / kNanoseconds, least, proto::kMaxHealthMs);
}

static std::vector<std::string> command_of(const Json& run, std::vector<std::string> test) {
  const std::string kind = test.front();
  test.erase(test.begin());
  if (kind == "CMD-SHELL") {
    std::vector<std::string> shell = texts_of(run, "Shell", "config");
    if (shell.empty()) shell = {"/bin/sh", "-c"};
    if (test.size() != 1)
      throw Error(Kind::Invalid, std::string(kWhere) + ".Test: CMD-SHELL takes one line");
    test.insert(test.begin(), shell.begin(), shell.end());
  } else if (kind != "CMD") {
    throw Error(Kind::Invalid, std::string(kWhere) +
                                   ".Test must begin with NONE, CMD or "
                                   "CMD-SHELL, not \"" +
                                   printable(kind, 40) + "\"");
  }
  if (test.empty() || test.front().empty())
    throw Error(Kind::Invalid, std::string(kWhere) + ".Test has no command");
  return test;
}

std::optional<proto::HealthCheck> health_of(const Json& run) {
  const Json* check = member(run, "Healthcheck");
  if (check == nullptr) return std::nullopt;
  if (!check->is_object()) throw Error(Kind::Invalid, std::string(kWhere) + " must be an object");
  std::vector<std::string> test = texts_of(*check, "Test", kWhere);
  // An empty one would be the parent image's; a built image has none left.
  if (test.empty() || test.front() == "NONE") return std::nullopt;
  proto::HealthCheck health;
  health.command = command_of(run, std::move(test));
  health.interval_ms = time_of(*check, "Interval", health.interval_ms, proto::kMinHealthMs);
  health.timeout_ms = time_of(*check, "Timeout", health.timeout_ms, proto::kMinHealthMs);
  health.start_period_ms = time_of(*check, "StartPeriod", 0, 0);
  health.start_interval_ms =
      time_of(*check, "StartInterval", health.start_interval_ms, proto::kMinHealthMs);
  if (const uint64_t retries = number_of(*check, "Retries"))
    health.retries = static_cast<uint32_t>(std::min<uint64_t>(retries, proto::kMaxHealthRetries));
  // Its words are all that is left to be beyond a bound.
  if (const auto why = health.complaint())
    throw Error(Kind::Exhausted, std::string(kWhere) + ": " + *why);
  return health;
}

}
