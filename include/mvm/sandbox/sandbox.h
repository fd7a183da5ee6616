#pragma once
// One sandbox: starts its monitor, serves its control socket, and knows how it ended.
//
// Everything that the monitor or the guest's agent says is hostile here: both are on the far side
// of the boundary.

#include <array>
#include <memory>

#include "mvm/loop/loop.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/fd.h"

namespace mvm::sandbox {

using SandboxFds = std::array<sys::Fd, static_cast<size_t>(proto::SandboxFd::Count)>;

class Sandbox {
 public:
  // Starts `mvm monitor` from our own executable. Throws Error when the host cannot run a machine.
  Sandbox(loop::Loop& loop, proto::SandboxConfig config, SandboxFds fds);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

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
