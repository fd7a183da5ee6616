#pragma once
// Serves one client on two descriptors. No listener, no other way in.

#include <chrono>
#include <string>

#include "mvm/mcp/perform.h"

namespace mvm::mcp {

inline constexpr size_t kMaxCalls = 8;  // at once; the next is told that it is busy

struct ServerOptions {
  int in = 0;
  int out = 1;
  std::string version;
  // Between two words that a call goes on, to a client that wants to hear so.
  std::chrono::milliseconds heartbeat{5000};
};

// Until the client closes its end, or takes nothing any more. Commands that still run then are
// ended. SIGPIPE must be ignored.
void serve(const Target& target, const ServerOptions& options);

}
