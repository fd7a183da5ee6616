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
  // Say on standard error what the sandbox asks a person, and let its terminal answer.
  bool tell_questions = false;
  // Say so when the sandbox has no network although one was asked for.
  bool tell_network = false;
  // The sandbox process greets at once, whatever its guest does: one that has not by then is stuck.
  std::chrono::milliseconds greeting_limit{30'000};
};

// The sandbox's end of the connection is gone, without the word that it says when it ends in order.
class ConnectionLost : public Error {
 public:
  ConnectionLost() : Error(Kind::Unavailable, "the sandbox closed the connection; did it end?") {}
};

// Runs it to its end and returns the exit code for the shell. `socket` is a connection to the
// sandbox's control socket.
//
// SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the command; after the second of them the command is
// cancelled. SIGWINCH changes the size of its terminal.
// Throws SandboxEnded when the sandbox ended meanwhile, and ConnectionLost when it is just gone.
int run_session(Console& console, sys::Fd socket, const ExecPlan& plan);

}
