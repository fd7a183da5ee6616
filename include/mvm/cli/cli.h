#pragma once
// The command line as a whole: what main() calls for every role that is not a sandbox's.

#include <functional>
#include <string_view>

namespace mvm::cli {

struct CliEnvironment {
  std::string_view version;
  // `mvm daemon`: serves until it is told to end, and returns its exit code. When `ready_fd` is
  // not -1 it is owned by the callee and closed once the socket accepts: whoever started the
  // daemon waits for that.
  std::function<int(int ready_fd)> serve;
};

// Parses, executes, reports. Returns the exit code of the process. Never throws.
int run_cli(int argc, char** argv, const CliEnvironment& environment) noexcept;

}
