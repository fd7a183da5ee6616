// mvm-agent. As PID 1 of a sandbox's initramfs: set up the system, serve the host, power off.
// With --serve-fd: the same server on an inherited socket, on any Linux, for tests.

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/socket.h"

#include "lane.h"
#include "process_one.h"
#include "server.h"
#include "version.h"

namespace mvm::guest {

// In place of vsock ports, sockets in a directory that have numbers for names.
static ListenLane lanes_in(const std::string& directory) {
  return [directory, last = uint32_t{0}]() mutable {
    ++last;
    return LaneListener{sys::listen_unix(directory + "/" + std::to_string(last)), last};
  };
}

static int serve_descriptor(int fd, const std::string& cgroups, const std::string& lanes,
                            proto::Profile profile) {
  sys::check(::prctl(PR_SET_CHILD_SUBREAPER, 1), "becoming a subreaper");
  loop::Loop loop;
  Server::Options options;
  options.cgroups = cgroups;
  options.profile = profile;
  if (!lanes.empty()) options.copies.listen_lane = lanes_in(lanes);
  options.shutdown = [&loop](const proto::ShutdownRequest&) { loop.stop(); };
  options.idle = [&loop] { loop.stop(); };
  Server server(loop, std::move(options));
  sys::Fd socket(fd);
  sys::check(::fcntl(fd, F_SETFD, FD_CLOEXEC), "taking the inherited socket");
  server.serve(std::move(socket));
  loop.run();
  server.flush();
  return 0;
}

static int usage() {
  std::fputs(
      "usage: mvm-agent --serve-fd N [--root-cgroup DIR] [--lanes DIR] [--profile NAME]\n"
      "       mvm-agent --version\n"
      "Without arguments it must be process 1 of a sandbox.\n",
      stderr);
  return 2;
}

static int run(int argc, char** argv) {
  // The kernel hands its init the words of the command line that it does not know itself.
  const bool asked = argc > 1 && std::string_view(argv[1]).starts_with("--");
  if (::getpid() == 1 && !asked) run_as_process_one();
  std::optional<int> fd;
  std::string cgroups;
  std::string lanes;
  proto::Profile profile = proto::Profile::Dev;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--version") {
      std::printf("mvm-agent %s\n", std::string(kAgentVersion).c_str());
      return 0;
    }
    if (i + 1 == argc) return usage();
    const std::string_view value = argv[++i];
    if (flag == "--serve-fd") {
      const auto number = parse_u64(value);
      if (!number || *number > INT32_MAX) return usage();
      fd = static_cast<int>(*number);
    } else if (flag == "--profile") {
      const auto named = proto::profile_from_name(value);
      if (!named) return usage();
      profile = *named;
    } else if (flag == "--root-cgroup") {
      cgroups = value;
    } else if (flag == "--lanes") {
      lanes = value;
    } else {
      return usage();
    }
  }
  return fd ? serve_descriptor(*fd, cgroups, lanes, profile) : usage();
}

}

int main(int argc, char** argv) {
  try {
    return mvm::guest::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mvm-agent: %s\n", error.what());
    return 1;
  }
}
