#pragma once
// One connection to a published port: bytes between its client and a connection that the agent
// makes to a port of the sandbox's loopback (proto/forward.h). The two directions are independent:
// each ends by itself, and each is paused by the other's reader. A client of a port where nothing
// listens in the guest finds its connection reset.

#include <cstdint>
#include <functional>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

#include "mux.h"

namespace mvm::sandbox {

class Forward {
 public:
  // `client` is an accepted TCP connection that does not block. `on_end` is called once, in a turn
  // of the loop after this one; the owner then drops it. Dropped before, both connections are
  // reset.
  Forward(loop::Loop& loop, Mux& mux, sys::Fd client, uint16_t port, std::function<void()> on_end);
  ~Forward();
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

 private:
  void on_frame(const proto::Frame& frame);
  void on_agent_end(const std::optional<proto::End>& end);
  void on_client_ready(uint32_t events);
  void read();
  void write();
  void update();
  void reset();
  void close();

  loop::Loop* loop_;
  Mux* mux_;
  sys::Fd client_;
  std::function<void()> on_end_;
  uint32_t stream_ = 0;
  bool connected_ = false;     // in the guest
  Bytes pending_;              // of the guest, not yet taken by the client: at most a window
  size_t begin_ = 0;           // of what is left of it
  bool guest_ended_ = false;   // no more will come from the guest
  bool shut_ = false;          // and the client was told
  bool agent_done_ = false;    // both directions have ended for the agent
  bool client_ended_ = false;  // no more will come from the client
  bool hung_ = false;          // both sides have closed it, as epoll says
  loop::Watch watch_;
};

}
