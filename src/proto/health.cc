#include "mvm/proto/health.h"

#include <array>

#include "mvm/proto/control.h"

#include "messages.h"

namespace mvm::proto {

static constexpr std::array<std::string_view, 3> kHealthNames{"starting", "healthy", "unhealthy"};

std::string_view health_name(Health health) { return kHealthNames.at(static_cast<size_t>(health)); }

std::optional<Health> health_from_name(std::string_view name) {
  for (size_t at = 0; at < kHealthNames.size(); ++at)
    if (kHealthNames.at(at) == name) return static_cast<Health>(at);
  return std::nullopt;
}

// ---- what is run ----------------------------------------------------------------------------

std::optional<std::string> HealthCheck::complaint() const {
  size_t bytes = 0;
  for (const std::string& word : command) {
    bytes += word.size();
    if (word.find('\0') != word.npos) return "command has a zero byte in it";
  }
  if (command.size() > kMaxHealthWords || bytes > kMaxHealthCommand)
    return "command is more than " + std::to_string(kMaxHealthWords) + " words or " +
           std::to_string(kMaxHealthCommand) + " bytes";
  if (!command.empty() && command.front().empty()) return "command begins with an empty word";
  const auto between = [](const char* name, uint64_t value, uint64_t least,
                          uint64_t most) -> std::optional<std::string> {
    if (value >= least && value <= most) return std::nullopt;
    return std::string(name) + " must be " + std::to_string(least) + " to " + std::to_string(most);
  };
  if (auto why = between("interval_ms", interval_ms, kMinHealthMs, kMaxHealthMs)) return why;
  if (auto why = between("timeout_ms", timeout_ms, kMinHealthMs, kMaxHealthMs)) return why;
  if (auto why = between("start_period_ms", start_period_ms, 0, kMaxHealthMs)) return why;
  if (auto why = between("start_interval_ms", start_interval_ms, kMinHealthMs, kMaxHealthMs))
    return why;
  return between("retries", retries, 1, kMaxHealthRetries);
}

Bytes HealthCheck::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    write_texts(map.field("command"), command);
    map.unsigned_integer("interval_ms", interval_ms);
    map.unsigned_integer("timeout_ms", timeout_ms);
    map.unsigned_integer("start_period_ms", start_period_ms);
    map.unsigned_integer("start_interval_ms", start_interval_ms);
    map.unsigned_integer("retries", retries);
  }
  return out;
}

std::optional<HealthCheck> HealthCheck::decode(ByteView item) noexcept {
  CborReader in(item);
  HealthCheck check;
  for (Fields field(in); field.next();) {
    if (field.is("command")) {
      check.command = read_texts(in, kMaxHealthWords, kMaxHealthCommand);
    } else if (field.is("interval_ms")) {
      check.interval_ms = in.unsigned_integer();
    } else if (field.is("timeout_ms")) {
      check.timeout_ms = in.unsigned_integer();
    } else if (field.is("start_period_ms")) {
      check.start_period_ms = in.unsigned_integer();
    } else if (field.is("start_interval_ms")) {
      check.start_interval_ms = in.unsigned_integer();
    } else if (field.is("retries")) {
      check.retries = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else {
      field.skip();
    }
  }
  return finished(in, check, in && !check.complaint());
}

// ---- what came of it ------------------------------------------------------------------------

static void write_result(Bytes& out, const HealthResult& result) {
  MapWriter map(out);
  map.unsigned_integer("ended_unix_ms", result.ended_unix_ms);
  if (result.exit_code) map.unsigned_integer("exit_code", *result.exit_code);
  map.string("why", std::string_view(result.why).substr(0, kMaxMessage));
  map.string("output", std::string_view(result.output).substr(0, kMaxHealthOutput));
}

static HealthResult read_result(CborReader& in) noexcept {
  HealthResult result;
  for (Fields field(in); field.next();) {
    if (field.is("ended_unix_ms")) {
      result.ended_unix_ms = in.unsigned_integer();
    } else if (field.is("exit_code")) {
      result.exit_code = static_cast<uint8_t>(in.unsigned_integer(UINT8_MAX));
    } else if (field.is("why")) {
      result.why = in.string(kMaxMessage);
    } else if (field.is("output")) {
      result.output = in.string(kMaxHealthOutput);
    } else {
      field.skip();
    }
  }
  return result;
}

Bytes HealthStatus::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("health", health_name(health));
    map.unsigned_integer("failures", failures);
    map.unsigned_integer("checks", checks);
    if (last) {
      map.field("last");
      write_result(out, *last);
    }
  }
  return out;
}

std::optional<HealthStatus> HealthStatus::decode(ByteView item) noexcept {
  CborReader in(item);
  HealthStatus status;
  bool complete = false;
  for (Fields field(in); field.next();) {
    if (field.is("health")) {
      const auto known = health_from_name(in.string(kMaxWord));
      complete = known.has_value();
      status.health = known.value_or(Health::Starting);
    } else if (field.is("failures")) {
      status.failures = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("checks")) {
      status.checks = in.unsigned_integer();
    } else if (field.is("last")) {
      status.last = read_result(in);
    } else {
      field.skip();
    }
  }
  return finished(in, status, complete);
}

}
