#pragma once
// The tcp verb: bytes between a stream of the host and a connection to the sandbox's loopback. The
// two directions are independent: each ends by itself, and each is paused by the other's reader.

#include "mvm/loop/loop.h"
#include "mvm/proto/forward.h"
#include "mvm/sys/fd.h"

#include "channel.h"

namespace mvm::guest {

class Forward final : public Stream {
 public:
  Forward(loop::Loop& loop, Channel& channel, const proto::TcpRequest& request);

  void on_frame(const proto::Frame& frame) override;
  void on_writable() override;
  void on_lost() override { channel().end({}); }

 private:
  void connect(int family);
  void on_connected();
  void on_ready(uint32_t events);
  void read();
  void write();
  void update();
  void fail(int error);

  loop::Loop* loop_;
  uint16_t port_;
  int family_ = 0;
  sys::Fd socket_;
  bool connected_ = false;
  Bytes pending_;  // of the host, not yet written: at most a window
  size_t begin_ = 0;
  bool host_ended_ = false;    // no more Data will come
  bool shut_ = false;          // and the socket was told
  bool socket_ended_ = false;  // no more will come from the socket
  Bytes buffer_ = Bytes(proto::kMaxPayload);
  loop::Watch watch_;
};

}
