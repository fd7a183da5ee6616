#pragma once

#include <array>
#include <chrono>
#include <ctime>
#include <string>

namespace mvm::daemon {

// RFC 3339, UTC, to the millisecond.
inline std::string rfc3339(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch());
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::string fraction = std::to_string(since.count() % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return std::string(text.data(), length) + "." + fraction + "Z";
}

inline std::string rfc3339_now() { return rfc3339(std::chrono::system_clock::now()); }

}
