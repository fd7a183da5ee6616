#pragma once
// The daemon: owns the sandboxes' records, starts their processes, sees how they end, and answers
// the API. It is in nobody's way once a sandbox runs: commands go to the sandbox's own control
// socket. So it may be killed and started again at any time; what a record says and what is really
// there are brought together at the start.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "mvm/api/service.h"
#include "mvm/base/bytes.h"
#include "mvm/jail/cgroup.h"
#include "mvm/jail/jail.h"
#include "mvm/obs/log.h"
#include "mvm/store/paths.h"

namespace mvm::daemon {

// Of the audit logs of sandboxes; holds for those that start from now on.
struct AuditSettings {
  bool strict = false;  // a record is on the disk before anything is done about it
  bool paths = true;    // paths of HTTP requests are recorded
};

struct DaemonOptions {
  store::Paths paths;
  ByteView agent;                  // the guest agent; must outlive the daemon
  ByteView monitor;                // the monitor; empty: the sandbox's executable has it, too
  std::string sandbox_executable;  // run as `<it> sandbox ISOLATION`
  std::string version;
  // How far this host lets sandbox processes be set apart.
  jail::Isolation isolation = jail::Isolation::None;
  jail::Cgroups cgroups;
  // It ends by itself when nothing was asked for so long and no sandbox runs. Zero: never.
  std::chrono::milliseconds idle{600'000};
  // How long a spare is kept: the processes of a sandbox that nobody has asked for yet, like the
  // last one. Zero: there are none.
  std::chrono::milliseconds spare{0};
  // What a sandbox process may take on top of the time it was given, before it is killed.
  std::chrono::milliseconds margin{5'000};
  // Sandboxes that start at the same time; further ones wait for their turn. 0: one a processor of
  // the host, and two at least.
  size_t starts_at_once = 0;
  // Where `GET /metrics` is answered, besides the socket: "127.0.0.1:9464". Empty: nowhere.
  std::string metrics_listen;
  AuditSettings audit{};
  obs::Log log{};  // NOLINT(readability-redundant-member-init): its constructor is explicit
  // Throws when this host cannot run a guest, saying why and what to do. Asked before the first
  // sandbox is made, and again as long as it throws.
  std::function<void()> check_host;
};

class Daemon {
 public:
  // Takes the lock (Error{Conflict} when another daemon is alive), repairs what an earlier one left
  // behind, adopts the sandboxes that still run, and listens.
  explicit Daemon(DaemonOptions options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Serves until stop(), a request to stop, or idleness. Sandboxes go on.
  void run();
  void stop() noexcept;  // from any thread, and from a signal handler

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}
