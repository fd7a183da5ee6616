#pragma once
// The sandbox's child, `mvm monitor`: started here, spoken to over one SEQPACKET socket, and known
// to have ended by its pidfd, whatever it said.

#include <functional>
#include <optional>

#include "mvm/jail/jail.h"
#include "mvm/loop/loop.h"
#include "mvm/proto/monitor.h"
#include "mvm/sys/process.h"

namespace mvm::sandbox {

class MonitorLink {
 public:
  struct Handlers {
    std::function<void(const proto::MonitorEvent&)> on_event;
    // The process has ended (it is reaped). An Ended event may have come before, or not.
    std::function<void(sys::ExitStatus)> on_exit;
  };

  // Starts it, held: it shuts itself in and waits for its configuration.
  // `program` is what to run; borrowed for the call.
  MonitorLink(loop::Loop& loop, jail::Isolation isolation, int program, Handlers handlers);
  ~MonitorLink();
  MonitorLink(const MonitorLink&) = delete;
  MonitorLink& operator=(const MonitorLink&) = delete;

  // Once: it builds its machine and runs. `fds` in the order of proto::MonitorFd; borrowed for the
  // call.
  void release(const proto::MonitorConfig& config, std::span<const int> fds);

  // As our own pid namespace numbers it.
  pid_t pid() const { return child_.pid(); }
  // False when the monitor is gone or does not read: then `fd` goes nowhere and is to be closed.
  bool send(const proto::MonitorRequest& request, std::optional<int> fd = std::nullopt);
  void kill();
  // What was wrong with its messages, when it was killed for that.
  const std::string& fault() const { return fault_; }

 private:
  void kill_for(const char* fault);

  void on_message();
  void on_child_end();

  loop::Loop* loop_;
  Handlers handlers_;
  sys::Child child_;
  std::string fault_;
  sys::Fd socket_;
  loop::Watch socket_watch_;
  loop::Watch child_watch_;
};

}
