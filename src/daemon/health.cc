#include "health.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "mvm/base/text.h"

#include "clock.h"

namespace mvm::daemon {

static constexpr size_t kMaxWhy = 1024;
// The year 9999, beyond which a time is no date any more.
static constexpr uint64_t kLastMoment = 253'402'300'799'999;

bool checks_health(const Record& record) {
  return record.spec.health && !record.spec.health->command.empty();
}

// Line by line, so that lines stay.
static std::string printable_lines(std::string_view text) {
  std::string out;
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += printable(text.substr(0, end), end);
    if (end == text.size()) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

api::Health shown(const proto::HealthStatus& status) {
  api::Health out;
  out.state = status.health;
  out.failures = status.failures;
  out.checks = status.checks;
  if (!status.last) return out;
  out.checked_at = rfc3339(std::chrono::system_clock::time_point(
      std::chrono::milliseconds(std::min(status.last->ended_unix_ms, kLastMoment))));
  if (status.last->exit_code) out.exit_code = *status.last->exit_code;
  out.why = printable(status.last->why, kMaxWhy);
  out.output = printable_lines(status.last->output);
  return out;
}

}
