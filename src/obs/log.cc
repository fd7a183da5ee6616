// spdlog writes the lines; what is ours is their shape: fields that cannot pass for one another,
// one line whatever is in them. Its headers are this file's alone, and no part of its registry
// (global loggers) is used.
#include "mvm/obs/log.h"

#include <array>
#include <cstdlib>
#include <mutex>

#include <unistd.h>

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "mvm/base/text.h"

namespace mvm::obs {

static constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warning", "error", "off"};
static constexpr std::array<spdlog::level::level_enum, 5> kLevels{
    spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err,
    spdlog::level::off};

namespace {

// One write(2) a line, so that the lines of several processes do not mix; those of several threads
// go through the sink's lock, for its formatter has a cache.
class FdSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FdSink(int fd)
      : base_sink(std::make_unique<spdlog::pattern_formatter>(
            "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc, "\n")),
        fd_(fd) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // There is nobody to tell about a failed write.
    static_cast<void>(!::write(fd_, line.data(), line.size()));
  }
  void flush_() override {}
  int fd_;
};

}

Level level_from_environment() {
  const char* wanted = std::getenv("MVM_LOG");
  for (size_t at = 0; wanted != nullptr && at < kNames.size(); ++at)
    if (kNames[at] == wanted) return static_cast<Level>(at);
  return Level::Info;
}

// Bare where it reads as one word, else quoted, so that a value cannot pass for another field.
static std::string shown(std::string_view value) {
  std::string safe = printable(value, kMaxValue);
  if (!safe.empty() && safe.find_first_of(" \"=") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

Log::Log(int fd, Level level)
    : logger_(std::make_shared<spdlog::logger>("", std::make_shared<FdSink>(fd))) {
  logger_->set_level(kLevels.at(static_cast<size_t>(level)));
}

void Log::line(Level level, std::string_view event, Fields fields) const {
  const auto at = kLevels.at(static_cast<size_t>(level));
  if (!logger_->should_log(at)) return;
  std::string out = printable(event);
  for (const Field& field : fields)
    out.append(" ").append(field.key).append("=").append(shown(field.value));
  logger_->log(at, out);
}

}
