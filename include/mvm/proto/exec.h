#pragma once
// Running a command in the sandbox: the request that opens a stream, the event when it has
// started, and the result when it has ended.
//
// The conversation: Request{exec}; Event started; then Data and Eof down (when stdin was asked
// for), Stdout and Stderr up (a terminal has Stdout only), Signal, Resize and Cancel down at any
// time; End. End comes when the command has exited and its output has been quiet for
// kOutputGrace, whatever its stdin or a background child still holds open, or at once when both
// pipes have ended. Its background children live on. The time-out and Cancel end the whole tree:
// TERM, and after kill_grace KILL.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/proto/frame.h"

namespace mvm::proto {

inline constexpr size_t kMaxArguments = 4096;
inline constexpr size_t kMaxEnvironment = 1024;
inline constexpr size_t kMaxString = kMaxPayload;  // the frame bounds them all together
inline constexpr size_t kMaxPath = 4095;           // PATH_MAX without its NUL
inline constexpr size_t kMaxUserName = 256;        // "user" or "user:group", by name or number
inline constexpr std::chrono::milliseconds kOutputGrace{100};
inline constexpr std::chrono::milliseconds kDefaultKillGrace{2000};
inline constexpr std::chrono::milliseconds kMaxDuration{1000LL * 3600 * 24 * 366};

inline constexpr std::string_view kExecVerb = "exec";
struct ExecRequest {
  std::vector<std::string> argv;  // at least the command; no shell takes part
  std::vector<std::pair<std::string, std::string>> env;  // added to the sandbox's own
  bool clear_env = false;                                // nothing but `env`
  std::string cwd;                                       // empty: the sandbox's own
  std::string user;         // "name", "uid", either with ":group"; empty: the sandbox's own
  bool stdin_open = false;  // false: /dev/null
  bool tty = false;         // one pseudo-terminal instead of three pipes
  TerminalSize size;        // with tty; 0x0 is 24x80
  std::chrono::milliseconds timeout{0};                      // 0: none
  std::chrono::milliseconds kill_grace = kDefaultKillGrace;  // from TERM to KILL
  uint64_t max_output = 0;  // bytes of output passed on, the rest is dropped; 0: no limit
  bool detach = false;      // the command outlives the connection; its output is then dropped
  bool operator==(const ExecRequest&) const = default;

  Bytes encode() const;
  static std::optional<ExecRequest> decode(ByteView payload) noexcept;
};

inline constexpr std::string_view kStartedEvent = "started";
struct ExecStarted {
  uint32_t pid = 0;  // in the sandbox
  bool operator==(const ExecStarted&) const = default;

  Bytes encode() const;
  static std::optional<ExecStarted> decode(ByteView payload) noexcept;
};

// What stands under "ok" in the End of an exec. A time-out is a result, not an error.
struct ExecResult {
  uint8_t exit_code = 0;  // when signal is 0
  uint8_t signal = 0;     // the signal that ended the command
  bool timed_out = false;
  bool truncated = false;  // max_output was reached
  bool operator==(const ExecResult&) const = default;

  Bytes encode() const;
  static std::optional<ExecResult> decode(ByteView item) noexcept;
};

}
