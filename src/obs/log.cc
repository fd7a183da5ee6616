#include "mvm/obs/log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <unistd.h>

#include "mvm/base/text.h"

namespace mvm::obs {

static constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warning", "error", "off"};

Level level_from_environment() {
  const char* wanted = std::getenv("MVM_LOG");
  for (size_t at = 0; wanted != nullptr && at < kNames.size(); ++at)
    if (kNames[at] == wanted) return static_cast<Level>(at);
  return Level::Info;
}

static std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> date{};
  const size_t length = std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::string fraction = std::to_string(milliseconds);
  fraction.insert(0, 3 - fraction.size(), '0');
  return std::string(date.data(), length) + "." + fraction + "Z";
}

// Bare where it reads as one word, else quoted, so that a value cannot pass for another field.
static std::string shown(std::string_view value) {
  const std::string safe = printable(value, kMaxValue);
  if (!safe.empty() && safe.find_first_of(" \"=") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

void Log::line(Level level, std::string_view event, Fields fields) const {
  if (level < level_) return;
  std::string out = timestamp() + " ";
  const std::string_view name = kNames.at(static_cast<size_t>(level));
  out.append(name).append(8 - name.size(), ' ').append(printable(event));
  for (const Field& field : fields)
    out.append(" ").append(field.key).append("=").append(shown(field.value));
  out += '\n';
  // There is nobody to tell about a failed write.
  static_cast<void>(!::write(fd_, out.data(), out.size()));
}

}
