#pragma once
// One command in a sandbox, with this process's standard streams, terminal and signals.

#include <chrono>
#include <string>

#include "mvm/cli/context.h"
#include "mvm/proto/exec.h"
#include "mvm/sys/fd.h"

namespace mvm::cli {

struct ExecPlan {
  proto::ExecRequest request;
  std::string sandbox;
  std::string sandbox_id;  // "" when not known
  bool json = false;       // keep the output and print one document
  uint64_t keep = 0;       // with json: bytes kept of each stream
  // The sandbox process greets at once, whatever its guest does: one that has not by then is stuck.
  std::chrono::milliseconds greeting_limit{30'000};
};

// Runs it to its end and returns the exit code for the shell. `socket` is a connection to the
// sandbox's control socket.
//
// SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the command; after the second of them the command is
// cancelled. SIGWINCH changes the size of its terminal.
int run_session(Console& console, sys::Fd socket, const ExecPlan& plan);

}
