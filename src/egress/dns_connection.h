#pragma once
// DNS over TCP (RFC 7766): many queries on a connection, answers in whatever order they are found.

#include "dns_service.h"
#include "sockets.h"

namespace mvm::egress {

class DnsService::Connection {
 public:
  static constexpr size_t kMaxUnsent = 256 * 1024;  // bytes, of a client that does not read

  // `serve` gets each message; `end` may drop the connection.
  Connection(loop::Loop& loop, sys::Fd socket, std::function<void(ByteView)> serve,
             std::function<void()> end);
  // Sends one, behind its length. One that the client leaves no room for is dropped.
  void send(ByteView message);

 private:
  void handle(uint32_t events);
  bool receive();
  bool flush();
  void serve_whole();
  void rearm();

  loop::Loop& loop_;
  sys::Fd socket_;
  std::function<void(ByteView)> serve_;
  std::function<void()> end_;
  Bytes received_;
  Bytes to_send_;
  bool client_done_ = false;
  loop::Watch watch_;
  loop::Watch idle_;
};

}
