// Ours in place of gtest_main's: the same program plays the sandbox.
#include <csignal>
#include <string_view>

#include <gtest/gtest.h>

#include "machine.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && std::string_view(argv[1]) == "sandbox") return mvm::leaks::run_machine();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
