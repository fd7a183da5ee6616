#pragma once
// The agent's end of a lane (proto/copy.h): a port of its own, on which one connection of the
// host's is waited for. Processes of the sandbox can reach the port too, and are turned away.

#include <cstdint>
#include <functional>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

#include "channel.h"

namespace mvm::guest {

struct LaneListener {
  sys::Fd socket;
  uint32_t port = 0;
};
// Error where there can be none.
using ListenLane = std::function<LaneListener()>;

// On any free vsock port, with large buffers.
LaneListener listen_vsock_lane();

class Lane {
 public:
  // `on_readable` is called whenever the connection that came has something to be read, or has
  // ended. What fails ends `channel`, which outlives this.
  Lane(loop::Loop& loop, LaneListener listener, Channel& channel,
       std::function<void()> on_readable);
  uint32_t port() const { return listener_.port; }
  int socket() const { return socket_.get(); }

 private:
  void accept();

  loop::Loop* loop_;
  Channel* channel_;
  LaneListener listener_;
  std::function<void()> on_readable_;
  sys::Fd socket_;
  loop::Watch watch_;
};

// The next connection that waits on a listener, if it is the host's: all of a vsock listener's that
// are not come from processes of the sandbox. Nothing, with `drained`, when none waits.
sys::Fd accept_host(int listener, bool& drained);

}
