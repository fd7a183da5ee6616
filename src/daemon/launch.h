#pragma once
// From a record to a running sandbox process, and what is left of one that ended.

#include <memory>
#include <optional>

#include "mvm/daemon/daemon.h"
#include "mvm/image/initramfs.h"
#include "mvm/image/kernel.h"
#include "mvm/jail/cgroup.h"
#include "mvm/jail/jail.h"
#include "mvm/proto/machine_base.h"
#include "mvm/store/images.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

#include "audit_logs.h"
#include "records.h"

namespace mvm::daemon {

// Fills in what the spec leaves open, from the image and the host, and refuses (Error{Invalid},
// naming the key) what cannot be. The name may stay empty.
void complete_spec(api::SandboxSpec& spec, const store::Image& image);
// Throws Error{Invalid} when there is not one value for each rule, or one cannot be used. Says
// nothing of the values.
void check_secret_values(const std::vector<proto::SecretRule>& rules,
                         const proto::SecretValues& values);
std::string new_sandbox_id();
// "brave-otter": easy to say, and rarely taken.
std::string random_name();

// The monitor's program, one copy in memory for all sandboxes; where that cannot be had, the
// sandbox's own. Throws SystemError.
sys::Fd monitor_program(const DaemonOptions& options);

struct Launch {
  const store::Paths& paths;
  std::string executable;
  jail::Isolation isolation;
  const jail::Cgroups& cgroups;
  const image::AgentBinary& agent;
  AuditLogs& audit;
  const sys::Fd& monitor;  // its program
};

// A process `mvm sandbox` that waits for its messages. Dropped before take(), it is ended.
class SandboxProcess {
 public:
  SandboxProcess() = default;
  // In the cgroup of `id`, with the limits of `spec`.
  SandboxProcess(const Launch& launch, const std::string& id, const api::SandboxSpec& spec);
  SandboxProcess(SandboxProcess&& other) noexcept = default;
  SandboxProcess& operator=(SandboxProcess&& other) noexcept;
  ~SandboxProcess();
  const sys::Child& child() const { return child_; }
  void send(ByteView message, std::span<const sys::Fd> fds = {}) const;
  sys::Child take() { return std::move(child_); }

 private:
  void end() noexcept;
  sys::Child child_;
  sys::Fd channel_;
};

// What the machine of a sandbox stands on.
struct Base {
  proto::MachineBase machine;
  std::vector<sys::Fd> fds;  // in the order of proto::BaseFd
  std::vector<sys::FileStamp> stamps;

  Base(const Launch& launch, const api::SandboxSpec& spec, const image::KernelBundle& kernel);
  // The same memory, with the same files in it.
  bool same_as(const Base& other) const;
};

// A sandbox process, with its monitor, that was started before anybody asked for it: it has built
// what a machine stands on and waits to be told whose it is. Under its id a sandbox can be made.
struct Spare {
  Spare(const Launch& launch, std::string sandbox_id, const api::SandboxSpec& like,
        const image::KernelBundle& kernel);
  // Whether it can be the process of a sandbox that stands on `wanted`.
  bool fits(const Base& wanted) const;

  std::string id;
  Base base;
  // The host's mounts when its own began to be apart from them: what is mounted later it may not
  // see, and an authority's certificate may lie there.
  std::string mounts;
  SandboxProcess process;
};

// A process that waits for its configuration: it does nothing before release(), and ends when it is
// dropped. So a daemon that dies between starting it and writing its pid down leaves nothing.
class HeldSandbox {
 public:
  const sys::Child& child() const { return process_.child(); }
  void release();
  sys::Child take() { return process_.take(); }

 private:
  friend HeldSandbox hold_sandbox(const Launch& launch, const Record& record,
                                  const proto::SecretValues& values, const store::Image& image,
                                  const image::KernelBundle& kernel, std::unique_ptr<Spare> spare);
  SandboxProcess process_;
  std::optional<Base> base_;  // nothing: it has been told
  Bytes config_;
  Bytes secrets_;             // the message behind it; empty: there are none
  std::vector<sys::Fd> fds_;  // in the order of proto::SandboxFd
};

// Makes the directories, disk and sockets of the sandbox (the disk only when it has none) and
// starts its process, held. `spare`, where there is one, has the sandbox's id; it is taken where it
// fits.
HeldSandbox hold_sandbox(const Launch& launch, const Record& record,
                         const proto::SecretValues& values, const store::Image& image,
                         const image::KernelBundle& kernel, std::unique_ptr<Spare> spare);

// The record of its end that the sandbox process left; nothing when there is none. Anything in the
// file that is not as it should be is an end of its own.
struct ExitRecord {
  api::End end;
  std::string ended_at;
};
std::optional<ExitRecord> read_exit_record(const std::string& path);

}
