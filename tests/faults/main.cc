// One program in three roles: the tests, the daemon they watch (with the seam), and its sandboxes.
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "mvm/daemon/daemon.h"
#include "mvm/sys/process.h"

#include "seam.h"
#include "unit/daemon/fake_sandbox.h"

namespace mvm::faults {

static constexpr int kPlanFd = 3;

static daemon::Daemon* running = nullptr;

static int run_daemon(const char* runtime, const char* data) {
  try {
    watch_calls(map_plan(kPlanFd));
    watch_database();
    daemon::Daemon daemon({.paths = {runtime, data},
                           .agent = as_bytes("no agent"),
                           .sandbox_executable = sys::own_executable(),
                           .version = "test",
                           .idle = std::chrono::milliseconds(0),
                           .log = obs::Log(2, obs::Level::Warning)});
    running = &daemon;
    std::signal(SIGTERM, [](int) { running->stop(); });
    daemon.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mvm daemon: %s\n", error.what());
    return 1;
  }
}

}

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::string_view role = argc > 1 ? argv[1] : "";
  if (role == "sandbox") return mvm::daemon::run_fake_sandbox();
  if (role == "daemon" && argc == 4) return mvm::faults::run_daemon(argv[2], argv[3]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
