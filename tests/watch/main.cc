// Ours in place of gtest_main's: the same program plays the builder.
#include <csignal>
#include <string_view>

#include <gtest/gtest.h>

#include "stand_in.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && std::string_view(argv[1]) == "sandbox") return mvm::watch::run_stand_in();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
