#pragma once
// The monitor's one line to the outside: requests of the sandbox process in, events out.

#include <functional>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/proto/monitor.h"
#include "mvm/sys/fd.h"

namespace mvm::monitor {

class ControlLink {
 public:
  // `on_request` gets a request and the descriptor that came with it, if one did. `on_closed`: the
  // sandbox process is gone, and so is the reason to run.
  ControlLink(loop::Loop& loop, sys::Fd socket,
              std::function<void(const proto::MonitorRequest&, sys::Fd)> on_request,
              std::function<void()> on_closed);

  // From the loop's thread. A sandbox process that does not read loses events rather than stop the
  // guest; it has room for hundreds, and asks for each but a few.
  void send(const proto::MonitorEvent& event) noexcept;

 private:
  void on_message();

  sys::Fd socket_;
  std::function<void(const proto::MonitorRequest&, sys::Fd)> on_request_;
  std::function<void()> on_closed_;
  loop::Watch watch_;
};

}
