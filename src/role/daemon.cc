// `mvm daemon`: parse, take the lock and the socket, serve, go. It is usually started by the first
// command that needs it, with --ready-fd: a pipe that is closed once the socket accepts.
#include "mvm/daemon/daemon.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include <sys/prctl.h>
#include <unistd.h>

#include "mvm/api/types.h"
#include "mvm/base/text.h"
#include "mvm/crypto/library.h"
#include "mvm/jail/cgroup.h"
#include "mvm/jail/jail.h"
#include "mvm/kvm/probe.h"
#include "mvm/sys/error.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/process.h"

#include "programs.h"
#include "roles.h"

namespace mvm::role {

// For the signal handler alone, which may do no more than write to an eventfd.
static std::atomic<daemon::Daemon*> running_daemon{nullptr};

static void on_signal(int) {
  if (daemon::Daemon* daemon = running_daemon) daemon->stop();
}

static std::chrono::milliseconds duration_from_environment(const char* name,
                                                           std::chrono::milliseconds otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  const auto duration = parse_duration_ms(text);
  if (!duration)
    throw Error(Kind::Invalid, std::string(name) + ": \"" + printable(text) +
                                   "\" is not a duration such as 10m (0: never)");
  return std::chrono::milliseconds(*duration);
}

// One of two words; the first is the default.
static bool second_word(const char* name, std::string_view text, std::string_view first,
                        std::string_view second) {
  if (text.empty() || text == first) return false;
  if (text == second) return true;
  throw Error(Kind::Invalid, std::string(name) + ": \"" + printable(text) + "\" must be " +
                                 std::string(first) + " or " + std::string(second));
}

static std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

static void check_kvm() {
  const kvm::HostSupport host = kvm::probe();
  if (host.support == kvm::Support::Usable) return;
  const Kind kind = host.support == kvm::Support::NoPermission ? Kind::Denied : Kind::Unsupported;
  throw api::ApiError(kind, host.message, host.way_out);
}

static int usage(std::string_view what) {
  std::fprintf(stderr,
               "mvm daemon: %s\nusage: mvm daemon [--foreground] [--metrics-listen ADDRESS:PORT] "
               "[--audit-sync normal|strict] [--ready-fd N]\n",
               printable(what).c_str());
  return 2;
}

int run_daemon(int argc, char** argv) {
  sys::Fd ready;
  std::string metrics_listen;
  std::optional<std::string> audit_sync;
  for (int at = 2; at < argc; ++at) {
    const std::string_view argument = argv[at];
    if (argument == "--foreground") continue;  // what it does anyway; says so in a unit file
    if (argument == "--metrics-listen") {
      if (at + 1 == argc) return usage("--metrics-listen takes an address, 127.0.0.1:9464");
      metrics_listen = argv[++at];
      continue;
    }
    if (argument == "--audit-sync") {
      if (at + 1 == argc) return usage("--audit-sync takes normal or strict");
      audit_sync = argv[++at];
      continue;
    }
    if (argument != "--ready-fd") return usage("unknown argument " + std::string(argument));
    const auto number = at + 1 < argc ? parse_u64(argv[++at]) : std::nullopt;
    if (!number || *number < 3 || *number > 1023) return usage("--ready-fd takes a number from 3");
    ready = sys::Fd(static_cast<int>(*number));
  }

  const bool strict =
      audit_sync ? second_word("--audit-sync", *audit_sync, "normal", "strict")
                 : second_word("MVM_AUDIT_SYNC", variable("MVM_AUDIT_SYNC"), "normal", "strict");

  crypto::start_library();
  // Values of secrets pass through its memory; nobody may read that, and no core has it.
  sys::check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "forbidding core dumps");
  const jail::HostSupport host = jail::probe_host();
  daemon::DaemonOptions options{
      .paths = store::Paths::from_environment(),
      .agent = agent_binary(),
      .monitor = monitor_binary(),
      .sandbox_executable = sys::own_executable(),
      .version = MVM_VERSION,
      .isolation = host.isolation,
      .cgroups = jail::Cgroups::find(),
      .idle = duration_from_environment("MVM_DAEMON_IDLE", std::chrono::minutes(10)),
      .spare = duration_from_environment("MVM_DAEMON_SPARE", std::chrono::minutes(2)),
      .metrics_listen = metrics_listen,
      .audit = {.strict = strict,
                .paths = !second_word("MVM_AUDIT_PATHS", variable("MVM_AUDIT_PATHS"), "on", "off")},
      .check_host = check_kvm};
  if (const char* binary = std::getenv("MVM_BINARY")) options.sandbox_executable = binary;
  if (!host.missing.empty())
    options.log.warning("sandboxes start with a part of their jail missing",
                        {{"missing", host.missing}, {"way_out", host.way_out}});
  if (!options.cgroups.available())
    options.log.warning(
        "sandboxes start without a cgroup",
        {{"missing", options.cgroups.missing()}, {"way_out", options.cgroups.way_out()}});
  daemon::Daemon daemon(std::move(options));
  running_daemon = &daemon;
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  ready.reset();
  daemon.run();
  running_daemon = nullptr;
  return 0;
}

}
