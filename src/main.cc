// One program, four roles: the first argument picks the process. The monitor is usually run from a
// program of its own (monitor_main.cc).
#include <csignal>
#include <cstdio>
#include <exception>
#include <string_view>

#include "role/roles.h"

static int run_role(int argc, char** argv) {
  const std::string_view role = argc > 1 ? argv[1] : "";
  if (role == "monitor") return mvm::role::run_monitor(argc, argv);
  if (role == "sandbox") return mvm::role::run_sandbox(argc, argv);
  // `mvm daemon stop`, `status` and `--help` are commands like any other; `mvm daemon` is the
  // daemon itself.
  const std::string_view second = argc > 2 ? argv[2] : "";
  if (role == "daemon" && (second.empty() || second == "--foreground" || second == "--ready-fd"))
    return mvm::role::run_daemon(argc, argv);
  return mvm::role::run_cli(argc, argv);
}

int main(int argc, char** argv) {
  // A peer that is gone is an error value of the write, never a signal.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run_role(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mvm: %s\n", error.what());
    return 125;
  }
}
