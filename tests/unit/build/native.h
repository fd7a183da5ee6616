#pragma once
// A builder without a machine: the agent itself, in the builder's root file system with Debian's
// Nix, in namespaces without any right on this host and without a network (tests/nix/enter).

#include <memory>
#include <optional>
#include <string>

#include "mvm/build/build.h"
#include "mvm/store/images.h"
#include "mvm/store/paths.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::build {

// A folder that is the same one in there, for the sockets that stand for vsock ports: numbers are
// their names. Gone when dropped.
class Lanes {
 public:
  Lanes();
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  const std::string& path() const { return path_; }
  sys::Fd dial(uint32_t port) const;

 private:
  std::string path_;
};

class NativeBuilder : public Builder {
 public:
  // `interrupt` as of agent::Connection. `small_disk`: bytes of its writable layer.
  explicit NativeBuilder(const std::string& base, std::optional<uint64_t> small_disk = {});
  ~NativeBuilder() override;

  std::string identity() override { return identity_; }
  agent::Connection& connection() override;
  std::optional<api::Image> adopt(const api::AdoptRequest& request) override;
  api::Image capture(api::CaptureRequest request) override;
  std::string install_kernel(const std::string& bundle) override;
  // Ends the agent, and with it all that runs there.
  void stop();

  store::Images& images() { return images_; }
  std::string identity_ = "native";
  int interrupt = -1;
  size_t starts = 0;
  std::vector<std::string> kernels;
  uint64_t capture_limit_ms = 0;  // that the last image was to be written in

 private:
  std::string work_;
  std::optional<uint64_t> small_disk_;
  store::Paths paths_;
  store::Images images_;
  Lanes lanes_;
  sys::Child agent_;
  std::optional<agent::Connection> connection_;
};

// Makes the folder that takes what is written in the builder's root file system, with the agent.
void prepare_work(const std::string& work);
// That agent in `root`, serving on `socket`, until the socket ends or we do.
sys::Child start_agent(const std::string& root, const std::string& work, int socket,
                       const Lanes& lanes, std::optional<uint64_t> small_disk = {});

// Folders that the tests stand on; made once on this machine.
const std::string& stand_in_folder();
const std::string& builder_root();

// Runs a program to its end; throws where it fails. What it prints is returned.
std::string run_program(std::vector<std::string> argv, const std::string& directory = "/");

}
