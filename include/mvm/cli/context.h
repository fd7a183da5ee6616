#pragma once
// What the actions of the command line need from the world, handed to them: so that each can be
// run in a test with a daemon of its own making.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/api/service.h"
#include "mvm/cli/options.h"
#include "mvm/proto/end.h"
#include "mvm/store/paths.h"

namespace mvm::cli {

// Where text for people goes. Borrows the two descriptors.
class Console {
 public:
  struct Look {
    bool out_terminal = false;
    bool err_terminal = false;
    bool colour = false;
  };
  Console(int out, int err, Look look) : out_(out), err_(err), look_(look) {}
  // Standard output and error; colours on a terminal unless NO_COLOR is set (no-color.org).
  static Console standard(const Variable& variable);

  void out(std::string_view text);
  void err(std::string_view text);
  const Look& look() const { return look_; }
  enum class Colour { Red, Green, Yellow, Bold };
  std::string coloured(Colour colour, std::string_view text) const;

  // A line on the error terminal that the next one replaces; nothing when it is no terminal.
  void progress(std::string_view text);
  void clear_progress();

 private:
  int out_;
  int err_;
  Look look_;
  bool progress_shown_ = false;
};

struct Context {
  Console& console;
  Variable variable;
  store::Paths paths;
  std::string directory;  // where relative paths start; absolute
  std::string version;
  // The daemon, started when it does not run.
  std::function<api::Service&()> service;
  // The daemon when it runs.
  std::function<std::unique_ptr<api::Service>()> running_service;
  std::function<int64_t()> unix_seconds;

  std::string absolute(std::string_view path) const;  // against `directory`
};

// Exit codes of our own.
inline constexpr int kFine = 0;
inline constexpr int kNotWell = 1;  // what was checked is not in order
inline constexpr int kUsage = 2;
inline constexpr int kTimedOut = 124;
inline constexpr int kFailed = 125;
inline constexpr int kCannotExecute = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kKilled = 128 + 9;

// The sandbox has ended while a command ran in it, or before one could.
class SandboxEnded : public Error {
 public:
  SandboxEnded(proto::EndReason reason, std::string message)
      : Error(Kind::Unavailable, std::move(message)), reason_(reason) {}
  proto::EndReason reason() const { return reason_; }

 private:
  proto::EndReason reason_;
};
// 124 for a limit of time, 137 (as by SIGKILL) for want of memory and for who was killed, else 125.
int exit_code_of(proto::EndReason reason);

// A build that another command needed has ended without an image; why was said already.
class BuildEnded : public Error {
 public:
  explicit BuildEnded(int code)
      : Error(Kind::Unavailable, "the image was not built"), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Columns of text, each as wide as its widest cell.
std::string table(const std::vector<std::vector<std::string>>& rows);

// "2.1 s"
std::string seconds_since(std::chrono::steady_clock::time_point start);

// Text of a guest or a daemon for a terminal: line breaks and tabs stay, other control bytes are
// shown as \xNN. UTF-8 passes.
std::string tame(std::string_view text);

}
