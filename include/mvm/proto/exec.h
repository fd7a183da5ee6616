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

#include <array>
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
inline constexpr size_t kMaxRunId = 63;
inline constexpr size_t kMaxUserName = 256;  // "user" or "user:group", by name or number
inline constexpr std::chrono::milliseconds kOutputGrace{100};
inline constexpr std::chrono::milliseconds kDefaultKillGrace{2000};
inline constexpr std::chrono::milliseconds kMaxDuration{1000LL * 3600 * 24 * 366};

// The limits of setrlimit(2), by Linux' own numbers: kRlimitNames[RLIMIT_NOFILE] is "nofile".
inline constexpr std::array<std::string_view, 16> kRlimitNames{
    "cpu",     "fsize", "data",  "stack",      "core",     "rss",  "nproc",  "nofile",
    "memlock", "as",    "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime"};
inline constexpr uint64_t kUnlimited = UINT64_MAX;
struct ResourceLimit {
  uint8_t resource = 0;  // below kRlimitNames.size()
  uint64_t soft = 0;     // at most `hard`; kUnlimited for none
  uint64_t hard = 0;
  bool operator==(const ResourceLimit&) const = default;
};

// Of the command and all it starts, together. 0: none of its own.
struct TreeLimits {
  uint64_t memory = 0;      // bytes; beyond it the kernel ends one of its processes
  uint64_t processes = 0;   // threads count too; beyond it fork(2) fails
  uint64_t cpu_millis = 0;  // thousandths of one CPU: 1500 is one and a half
  bool operator==(const TreeLimits&) const = default;
};
inline constexpr uint64_t kMinTreeMemory = uint64_t{1} << 20;
inline constexpr uint64_t kMaxTreeProcesses = 4'194'304;  // the kernel's PID_MAX_LIMIT
inline constexpr uint64_t kMaxCpuMillis = 1'000'000;
inline constexpr size_t kMaxAddedGroups = 64;

inline constexpr std::string_view kExecVerb = "exec";
struct ExecRequest {
  std::vector<std::string> argv;  // at least the command; no shell takes part
  std::vector<std::pair<std::string, std::string>> env;  // added to the sandbox's own
  bool clear_env = false;                                // nothing but `env`
  std::string cwd;                                       // empty: the sandbox's own
  std::string user;                 // "name", "uid", either with ":group"; empty: the sandbox's own
  std::vector<std::string> groups;  // supplementary ones besides the user's own, by name or number
  bool stdin_open = false;          // false: /dev/null
  bool tty = false;                 // one pseudo-terminal instead of three pipes
  TerminalSize size;                // with tty; 0x0 is 24x80
  std::chrono::milliseconds timeout{0};                      // 0: none
  std::chrono::milliseconds kill_grace = kDefaultKillGrace;  // from TERM to KILL
  uint64_t max_output = 0;  // bytes of output passed on, the rest is dropped; 0: no limit
  std::vector<ResourceLimit> rlimits;  // each resource at most once
  TreeLimits limits;
  bool detach = false;  // the command outlives the connection; its output is then dropped
  std::string run;      // what the audit log calls it, "run-…"; empty: the sandbox process picks
  // Personal data and keys in the output become "[redacted]" before anybody is given it. Not sent:
  // the guest's word on that would be worth nothing, so the host's end does it (mvm/agent/exec.h).
  bool redact = false;
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
  bool truncated = false;      // max_output was reached
  bool out_of_memory = false;  // the kernel ended a process of it for TreeLimits::memory
  bool operator==(const ExecResult&) const = default;

  Bytes encode() const;
  static std::optional<ExecResult> decode(ByteView item) noexcept;
};

}
