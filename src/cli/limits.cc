#include "limits.h"

#include <algorithm>
#include <array>
#include <optional>

#include "mvm/base/text.h"

namespace mvm::cli {
namespace {

// Those that count bytes; there a size such as 16M makes sense.
constexpr std::array<std::string_view, 8> kInBytes{"fsize", "data",    "stack", "core",
                                                   "rss",   "memlock", "as",    "msgqueue"};

std::string quoted(std::string_view text) { return "'" + printable(text, 40) + "'"; }

std::optional<uint64_t> limit_value(std::string_view text, bool in_bytes) {
  if (text == "unlimited") return proto::kUnlimited;
  return in_bytes ? parse_size(text) : parse_u64(text);
}

}

Expected<proto::ResourceLimit, std::string> parse_rlimit(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto* const found = std::find(proto::kRlimitNames.begin(), proto::kRlimitNames.end(), name);
  if (found == proto::kRlimitNames.end()) {
    std::string why = "knows no resource " + quoted(name);
    if (const auto near = nearest(name, proto::kRlimitNames))
      return Unexpected{why + "; did you mean " + *near + "?"};
    for (const auto known : proto::kRlimitNames)
      why += (known == proto::kRlimitNames.front() ? "; there are " : ", ") + std::string(known);
    return Unexpected{why};
  }
  if (equals == text.npos)
    return Unexpected{"must be NAME=SOFT[:HARD] such as nofile=1024:2048, not " + quoted(text)};
  const std::string_view values = text.substr(equals + 1);
  const size_t colon = values.find(':');
  const bool in_bytes = std::find(kInBytes.begin(), kInBytes.end(), name) != kInBytes.end();
  const auto soft = limit_value(values.substr(0, colon), in_bytes);
  const auto hard = colon == values.npos ? soft : limit_value(values.substr(colon + 1), in_bytes);
  if (!soft || !hard)
    return Unexpected{std::string(name) + " must be a number" +
                      (in_bytes ? ", a size such as 16M" : "") + " or 'unlimited', not " +
                      quoted(values)};
  if (*soft > *hard)
    return Unexpected{std::string(name) +
                      ": the soft limit is above the hard one: " + quoted(values)};
  proto::ResourceLimit limit;
  limit.resource = static_cast<uint8_t>(found - proto::kRlimitNames.begin());
  limit.soft = *soft;
  limit.hard = *hard;
  return limit;
}

Expected<uint64_t, std::string> parse_memory_limit(std::string_view text) {
  const auto size = parse_size(text);
  if (!size || *size < proto::kMinTreeMemory)
    return Unexpected{"must be a size of at least 1M, such as 256M, not " + quoted(text)};
  return *size;
}

Expected<uint64_t, std::string> parse_process_limit(std::string_view text) {
  const auto count = parse_u64(text);
  if (!count || *count == 0 || *count > proto::kMaxTreeProcesses)
    return Unexpected{"must be a number from 1 to " + std::to_string(proto::kMaxTreeProcesses) +
                      ", not " + quoted(text)};
  return *count;
}

Expected<uint64_t, std::string> parse_cpu_limit(std::string_view text) {
  const size_t dot = text.find('.');
  const auto whole = parse_u64(text.substr(0, dot));
  std::string fraction(dot == text.npos ? "" : text.substr(dot + 1));
  const bool fits = fraction.size() <= 3 && (dot == text.npos || !fraction.empty());
  fraction.resize(3, '0');
  const auto millis = parse_u64(fraction);
  constexpr uint64_t kLeast = 10;  // the kernel's smallest quota is 1 of the 100 ms period
  if (!whole || !millis || !fits || *whole > proto::kMaxCpuMillis / 1000 ||
      *whole * 1000 + *millis < kLeast || *whole * 1000 + *millis > proto::kMaxCpuMillis)
    return Unexpected{"must be a number of CPUs from 0.01 to " +
                      std::to_string(proto::kMaxCpuMillis / 1000) +
                      ", with at most 3 decimals, not " + quoted(text)};
  return *whole * 1000 + *millis;
}

}
