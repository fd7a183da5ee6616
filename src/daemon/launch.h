#pragma once
// From a record to a running sandbox process, and what is left of one that ended.

#include <optional>

#include "mvm/daemon/daemon.h"
#include "mvm/image/initramfs.h"
#include "mvm/image/kernel.h"
#include "mvm/jail/cgroup.h"
#include "mvm/jail/jail.h"
#include "mvm/store/images.h"
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

// A process that waits for its configuration: it does nothing before release(), and ends when it is
// dropped. So a daemon that dies between starting it and writing its pid down leaves nothing.
// Dropped before take(), it ends the process.
class HeldSandbox {
 public:
  HeldSandbox() = default;
  HeldSandbox(HeldSandbox&&) noexcept = default;
  HeldSandbox& operator=(HeldSandbox&&) = delete;
  ~HeldSandbox();
  sys::Child& child() { return child_; }
  void release();
  sys::Child take() { return std::move(child_); }

 private:
  friend HeldSandbox hold_sandbox(const Launch& launch, const Record& record,
                                  const proto::SecretValues& values, const store::Image& image,
                                  const image::KernelBundle& kernel);
  sys::Child child_;
  sys::Fd channel_;
  Bytes config_;
  Bytes secrets_;             // the message behind it; empty: there are none
  std::vector<sys::Fd> fds_;  // in the order of proto::SandboxFd
};

// Makes the directories, disk and sockets of the sandbox (the disk only when it has none) and
// starts its process, held.
HeldSandbox hold_sandbox(const Launch& launch, const Record& record,
                         const proto::SecretValues& values, const store::Image& image,
                         const image::KernelBundle& kernel);

// The record of its end that the sandbox process left; nothing when there is none. Anything in the
// file that is not as it should be is an end of its own.
struct ExitRecord {
  api::End end;
  std::string ended_at;
};
std::optional<ExitRecord> read_exit_record(const std::string& path);

}
