#pragma once
// This process's terminal at a sandbox's console.

#include <string>

#include "mvm/sys/fd.h"

namespace mvm::cli {

// Takes the terminal back: Ctrl-], as telnet and virsh have it.
inline constexpr char kDetachKey = 0x1d;

enum class ConsoleEnd { Detached, Signalled, SandboxEnded, TakenOver };
struct ConsoleResult {
  ConsoleEnd end = ConsoleEnd::Detached;
  int signal = 0;      // of Signalled
  std::string detail;  // of SandboxEnded: why it did, where it said so
};

// Sits down at the console of the sandbox whose control socket `control` is connected to, until one
// of the above. Standard input that is no terminal may end before: what is printed is shown all the
// same. Throws what the sandbox refuses.
ConsoleResult sit_at_console(sys::Fd control);

}
