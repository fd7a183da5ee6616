#pragma once
// One sandbox: has its monitor run, serves its control socket, and knows how it ended.
//
// Everything that the monitor or the guest's agent says is hostile here: both are on the far side
// of the boundary.

#include <array>
#include <memory>

#include "mvm/loop/loop.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/fd.h"

namespace mvm::secret {
class Secrets;
}

namespace mvm::sandbox {

class MonitorLink;

using SandboxFds = std::array<sys::Fd, static_cast<size_t>(proto::SandboxFd::Count)>;

class Sandbox {
 public:
  // `secrets`: whose placeholders the configuration's environment has; or nothing. `monitor` waits
  // for its own. Throws Error when the host cannot run a machine.
  Sandbox(loop::Loop& loop, proto::SandboxConfig config,
          std::shared_ptr<const secret::Secrets> secrets, SandboxFds fds,
          std::unique_ptr<MonitorLink> monitor);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  // What it still uses by name, open: the data directory, where its records go, the runtime
  // directory, which must be the working directory when the guest connects to a host port, and the
  // directory of its audit log.
  std::array<int, 3> directories() const;
  // Once, between stages 3 and 4 of the jail: its audit log gets its thread.
  void start_audit();
  // Whether its guest is to have a network, whose connections this process opens.
  bool has_network() const;
  // Once, between stages 3 and 4 of the jail: takes over the guest's network, as far as there is
  // one. Throws Error when there is none although rules were asked for.
  void open_network();
  // Once, when this process is jailed: the monitor gets its configuration, and the guest runs.
  void run_machine();

  // Ends it as "sandbox.stop" would. The loop stops when everything has been said and written.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Records in the data directory that a sandbox ended by a fault of the host's, before or after it
// began to serve.
void record_failure(int data_directory, bool served, const std::string& why);

}
