#pragma once
// What each command was asked to do, typed and checked: flags that contradict each other and
// values that make no sense are usage errors here, before anything is started.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/api/types.h"
#include "mvm/cli/arguments.h"
#include "mvm/config/settings.h"
#include "mvm/proto/exec.h"

namespace mvm::cli {

// Looks a variable of mvm's own environment up.
using Variable = std::function<std::optional<std::string>(std::string_view)>;

inline constexpr uint64_t kDefaultJsonOutput = uint64_t{1} << 20;  // bytes a stream
inline constexpr uint64_t kMaxJsonOutput = uint64_t{256} << 20;    // what we hold in memory
inline constexpr uint64_t kMaxTimeoutMs = 366ULL * 24 * 3600 * 1000;
inline constexpr size_t kMaxEnvFile = size_t{1} << 20;

// Where and how a command runs in a sandbox.
struct ExecOptions {
  std::string sandbox;  // empty for `run`
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;  // of -e, in the order given
  std::vector<std::string> env_files;
  std::string workdir;
  std::string user;
  bool interactive = false;
  bool tty = false;
  bool detach = false;
  bool json = false;
  bool redact = false;
  uint64_t timeout_ms = 0;  // 0: none
  uint64_t max_output = 0;  // 0: none
  std::vector<std::string> groups;
  std::vector<proto::ResourceLimit> rlimits;
  proto::TreeLimits limits;
  bool operator==(const ExecOptions&) const = default;
};
ExecOptions exec_options(const Arguments& arguments, const Variable& variable);

struct UpOptions {
  config::Settings flags;
  std::vector<std::string> env_files;
  std::optional<std::string> manifest;  // -f
  bool quiet = false;
  bool json = false;
  bool operator==(const UpOptions&) const = default;
};
UpOptions up_options(const Arguments& arguments, const Variable& variable);

struct RunOptions {
  ExecOptions exec;
  config::Settings machine;  // with the image; its env, workdir and user are the command's
  bool quiet = false;
  bool operator==(const RunOptions&) const = default;
};
RunOptions run_options(const Arguments& arguments, const Variable& variable);

struct BuildOptions {
  config::Settings flags;
  std::string directory = ".";  // where the flake's own path and mvm.toml are looked for
  std::vector<std::pair<std::string, std::string>> overrides;  // input, folder as it was given
  bool update_lock = false;
  bool watch = false;
  bool verbose = false;
  bool quiet = false;
  bool json = false;
  bool operator==(const BuildOptions&) const = default;
};
BuildOptions build_options(const Arguments& arguments);

struct ExplainOptions {
  config::Settings flags;               // the network's
  std::optional<std::string> manifest;  // -f
  bool json = false;
  bool operator==(const ExplainOptions&) const = default;
};
ExplainOptions explain_options(const Arguments& arguments);

struct CopyOptions {
  enum class Direction { Into, OutOf };
  Direction direction = Direction::Into;
  std::string sandbox;
  std::string local;
  std::string remote;
  bool parents = false;
  bool follow_link = false;
  std::string user;
  bool quiet = false;
  bool json = false;
  bool operator==(const CopyOptions&) const = default;
};
CopyOptions copy_options(const Arguments& arguments);

struct PortOptions {
  std::string sandbox;
  std::vector<proto::PublishedPort> publish;
  std::vector<proto::PublishedPort> remove;  // `guest` 0: whatever it leads to
  bool quiet = false;
  bool json = false;
  bool operator==(const PortOptions&) const = default;
};
PortOptions port_options(const Arguments& arguments);

struct DownOptions {
  std::vector<std::string> names;
  api::StopRequest request;
  bool remove = false;
  bool quiet = false;
  bool json = false;
  bool operator==(const DownOptions&) const = default;
};
DownOptions down_options(const Arguments& arguments);

// `name` when it is one, else a usage error.
std::string checked_name(const Arguments& arguments, const std::string& name);
// NAME or --name; both were checked to be valid names or ids.
std::string sandbox_name(const Arguments& arguments);
std::vector<std::string> sandbox_names(const Arguments& arguments);

// NAME=VALUE lines; blank lines and lines that start with '#' are skipped. Throws Error{Invalid}
// with `file` and the line's number.
std::vector<std::pair<std::string, std::string>> parse_env_file(std::string_view text,
                                                                std::string_view file,
                                                                const Variable& variable);

}
