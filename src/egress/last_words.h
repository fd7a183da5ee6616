#pragma once
// Ends a connection with a message that the client gets to read: sent, then a FIN, and what the
// client still sends is thrown away until it has closed too. A close with unread bytes would be a
// reset, which may overtake the message.

#include <functional>
#include <string>

#include "mvm/loop/loop.h"

namespace mvm::egress {

class LastWords {
 public:
  // `done` is called once, later; the callee may drop the object, which closes the socket.
  LastWords(loop::Loop& loop, sys::Fd socket, std::string message, std::function<void()> done);
  int fd() const noexcept { return socket_.get(); }
  sys::Fd take_socket() noexcept {
    watch_.reset();
    return std::move(socket_);
  }

 private:
  void handle();
  void send();

  sys::Fd socket_;
  std::string message_;  // what is left of it
  bool said_ = false;
  size_t discarded_ = 0;
  std::function<void()> done_;
  loop::Watch watch_;
  loop::Watch deadline_;
};

// A fatal alert in plain text, as an answer to a ClientHello (RFC 8446 §6).
enum class Alert : uint8_t { AccessDenied = 49, UnrecognizedName = 112 };
std::string tls_alert(Alert alert);

}
