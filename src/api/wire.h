#pragma once
// A connected socket with deadlines: what server and client have in common.

#include <chrono>
#include <optional>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/sys/fd.h"

namespace mvm::api {

using Clock = std::chrono::steady_clock;

class Wire {
 public:
  enum class Got { Data, Closed, Late, Interrupted };

  // Makes the socket non-blocking. Waits end early (Interrupted) once `interrupt` is readable; it
  // is borrowed, -1 for none.
  explicit Wire(sys::Fd socket, int interrupt = -1);

  // Waits for bytes and appends them to input(). With no deadline, for as long as it takes.
  Got read(std::optional<Clock::time_point> deadline);
  // What was read and not yet consumed; consume() says how much is left of it.
  ByteView input() const { return ByteView(buffer_).subspan(consumed_); }
  void consumed_to(ByteView rest) { consumed_ = buffer_.size() - rest.size(); }

  // All of it; false when the peer is gone or took nothing for `stall`.
  bool write(std::string_view data, std::chrono::milliseconds stall);
  // Both directions of the connection are closed. Does not wait.
  bool peer_gone() const;

 private:
  Got wait(short events, std::optional<Clock::time_point> deadline) const;

  sys::Fd socket_;
  int interrupt_;
  Bytes buffer_;
  size_t consumed_ = 0;
};

}
