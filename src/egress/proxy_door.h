#pragma once
// The first bytes of a connection to the explicit proxy. The head of a CONNECT is read off the
// socket, and no byte behind it: what belongs to the tunnel is where a flow looks for it. Anything
// else is left in the socket as it is.

#include <chrono>
#include <functional>
#include <optional>

#include "mvm/http/parser.h"
#include "mvm/http/refusal.h"
#include "mvm/loop/loop.h"

namespace mvm::egress {

class ProxyDoor {
 public:
  enum class What : uint8_t {
    Tunnel,     // a whole CONNECT
    Requests,   // not CONNECT
    Malformed,  // the head of a CONNECT that is none
    TimedOut,
    Lost,  // the client has gone, or ended in the middle of the head
  };
  struct Result {
    What what = What::Lost;
    sys::Fd socket;
    http::Authority to;     // of Tunnel; with a port
    http::Refusal refusal;  // of Malformed and TimedOut: what to answer
  };
  // Called once, never from the constructor; the callee may drop the door.
  using Done = std::function<void(Result)>;

  ProxyDoor(loop::Loop& loop, sys::Fd socket, std::chrono::milliseconds patience, Done done);
  sys::Fd take_socket();  // instead of a result
  int fd() const noexcept { return socket_.get(); }

 private:
  void look(uint32_t events);
  bool is_connect(ByteView data);
  void read_head(ByteView data);
  void refuse(What what, unsigned status, std::string reason, std::string_view message);
  void finish(Result result);

  sys::Fd socket_;
  Done done_;
  bool connect_ = false;  // it is one, and its head is being read
  http::RequestParser parser_;
  loop::Watch watch_;
  loop::Watch deadline_;
};

}
