// The monitor as a program of its own. It rides inside mvm, as the guest agent does: the process
// that faces the guest has the code of a monitor in its memory and no other, and pays for no other.
#include <csignal>
#include <cstdio>
#include <exception>

#include "role/roles.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return mvm::role::run_monitor(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mvm monitor: %s\n", error.what());
    return 125;
  }
}
