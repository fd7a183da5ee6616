#pragma once

#include <array>
#include <chrono>
#include <ctime>
#include <optional>
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

// Reads what rfc3339() wrote, to the second; nothing when it is not such a time.
inline std::optional<std::chrono::system_clock::time_point> from_rfc3339(const std::string& text) {
  std::tm utc{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&utc));
}

inline std::string rfc3339_now() { return rfc3339(std::chrono::system_clock::now()); }

}
