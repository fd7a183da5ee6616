#pragma once
// Carries calls out in a sandbox, each over a connection of its own to the sandbox's control
// socket. Everything that comes from there is hostile.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/mcp/protocol.h"
#include "mvm/mcp/tools.h"

namespace mvm::mcp {

struct Refusal {
  std::string what;
  std::string reason;
  std::string allow;  // the flag that would admit it; empty: none
  bool let_through = false;
};
struct Refusals {
  std::vector<Refusal> shown;
  uint64_t more = 0;
};

// The one sandbox that is served, and what its operator has decided. The functions are called by
// several threads at once, and may throw Error.
struct Target {
  std::string name;
  std::string control_socket;
  // Whether what a sandbox of this id tells is to be redacted; asked anew for each call, since the
  // name may be another sandbox's by then.
  std::function<bool(const std::string& id)> redacts;
  // What its network refused, all or while one run was; at most kMaxRefusals of it.
  std::function<Refusals(const std::string& run)> refusals;
};

// How calls end, so that a model, and a program, can tell what to do next.
enum class Status {
  Ok,
  CommandFailed,  // it ran, or could not be started: its exit code or signal says how
  TimedOut,       // the command's time was over
  PolicyDenied,   // the sandbox's profile refuses it, whatever the arguments
  Invalid,        // the arguments are wrong
  FileError,      // the guest could not: no such file, no space, …
  Limit,          // a bound of the sandbox is reached
  Busy,           // too many calls at once
  Transport,      // the sandbox does not run, does not answer, or went away meanwhile
  Internal,
};
std::string_view status_name(Status status);

// To its end; never throws. `interrupt` is a descriptor that ends it by becoming readable: the
// connection closes, and with it ends what the call has started.
ToolResult perform(const Target& target, const Call& call, int interrupt);

// Of a call that was not carried out.
ToolResult refused(const Target& target, Status status, const std::string& message);

}
