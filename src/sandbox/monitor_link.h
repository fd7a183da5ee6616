#pragma once
// The sandbox's child, `mvm monitor`: started here, spoken to over one SEQPACKET socket, and known
// to have ended by its pidfd, whatever it said.

#include <functional>
#include <optional>

#include "mvm/jail/jail.h"
#include "mvm/loop/loop.h"
#include "mvm/proto/machine_base.h"
#include "mvm/proto/monitor.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

class MonitorLink {
 public:
  struct Handlers {
    std::function<void(const proto::MonitorEvent&)> on_event;
    // The process has ended (it is reaped). An Ended event may have come before, or not.
    std::function<void(sys::ExitStatus)> on_exit;
  };

  // Starts it: it shuts itself in, builds what its machine stands on, and waits for what makes it
  // one sandbox's. `program` is what to run, `kvm` /dev/kvm; all are borrowed for the call.
  MonitorLink(jail::Isolation isolation, const proto::MachineBase& base, int program, int kvm,
              int kernel, int initramfs);
  ~MonitorLink();
  MonitorLink(const MonitorLink&) = delete;
  MonitorLink& operator=(const MonitorLink&) = delete;

  // Once: it completes its machine and runs. `fds` in the order of proto::MonitorFd; borrowed for
  // the call. The loop outlives this.
  void release(loop::Loop& loop, const proto::MonitorConfig& config, std::span<const int> fds,
               Handlers handlers);
  // Readable when it has ended.
  int pidfd() const { return child_.pidfd(); }

  // As our own pid namespace numbers it.
  pid_t pid() const { return child_.pid(); }
  // False when the monitor is gone or does not read: then `fd` goes nowhere and is to be closed.
  bool send(const proto::MonitorRequest& request, std::optional<int> fd = std::nullopt);
  void kill();
  // What was wrong with its messages, when it was killed for that.
  const std::string& fault() const { return fault_; }

 private:
  void kill_for(const char* fault);

  std::optional<sys::Message> receive();
  void on_message();
  void on_child_end();

  Handlers handlers_;
  sys::Child child_;
  std::string fault_;
  sys::Fd socket_;
  loop::Watch socket_watch_;
  loop::Watch child_watch_;
};

}
