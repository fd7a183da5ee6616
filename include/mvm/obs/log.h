#pragma once
// Log lines: one event, one line, one write(2), so that lines of several threads and processes do
// not mix.
//
//   2026-01-31T12:00:00.123Z info  sandbox started name=web id=sb-... took_ms=41
//
// Never logged: environment, argument vectors, payloads, secrets. Text from outside is made
// printable and cut. A Log is an object that role files make and hand on; there is no global one.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace mvm::obs {

enum class Level { Debug, Info, Warning, Error, Off };

// $MVM_LOG: "debug", "info", "warning", "error" or "off"; anything else, or unset, is Info.
Level level_from_environment();

// Longest text of one value, in bytes of the source.
inline constexpr size_t kMaxValue = 500;

struct Field {
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, uint64_t v) : key(k), value(std::to_string(v)) {}
  Field(std::string_view k, int64_t v) : key(k), value(std::to_string(v)) {}
  std::string_view key;  // a literal
  std::string value;
};
using Fields = std::initializer_list<Field>;

// Safe from any thread. A line that cannot be written is lost: logging never fails its caller.
class Log {
 public:
  // `fd` is borrowed and outlives the Log; 2 for most processes.
  explicit Log(int fd = 2, Level level = level_from_environment());

  void debug(std::string_view event, Fields fields = {}) const {
    line(Level::Debug, event, fields);
  }
  void info(std::string_view event, Fields fields = {}) const { line(Level::Info, event, fields); }
  void warning(std::string_view event, Fields fields = {}) const {
    line(Level::Warning, event, fields);
  }
  void error(std::string_view event, Fields fields = {}) const {
    line(Level::Error, event, fields);
  }

 private:
  void line(Level level, std::string_view event, Fields fields) const;
  std::shared_ptr<spdlog::logger> logger_;  // copies of a Log share it
};

}
