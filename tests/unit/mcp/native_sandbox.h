#pragma once
// A sandbox without a machine: the agent itself, on this host, behind a sandbox process's mux, with
// a control socket as a sandbox has one. Its commands run as whoever runs the test.

#include <string>
#include <thread>

#include "mvm/loop/loop.h"
#include "mvm/proto/sandbox_config.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::mcp {

class NativeSandbox {
 public:
  // Listens at `socket`.
  explicit NativeSandbox(std::string socket, proto::Profile profile = proto::Profile::Dev);
  ~NativeSandbox();
  NativeSandbox(const NativeSandbox&) = delete;
  NativeSandbox& operator=(const NativeSandbox&) = delete;

 private:
  void serve();

  proto::SandboxConfig config_;
  sys::Fd listener_;
  sys::Fd agent_socket_;
  sys::Child agent_;
  loop::Loop loop_;
  std::thread thread_;
};

}
