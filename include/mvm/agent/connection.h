#pragma once
// A blocking client of the frame protocol over a connected stream socket: a sandbox's control
// socket, or an agent's. One call at a time, one thread; used where waiting is all there is to do.
// Everything the far side sends is hostile.
//
// Errors, thrown: what the sandbox answered, with its kind and its message made printable;
// Unavailable when the connection ends, the far side breaks the protocol, or `interrupt` becomes
// readable; Unsupported when it is of another version; Timeout. After any error but an answer the
// connection is closed, which also cancels the call on the far side.

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "mvm/agent/call.h"
#include "mvm/proto/control.h"
#include "mvm/proto/metrics.h"
#include "mvm/sys/fd.h"

namespace mvm::agent {

using Milliseconds = std::chrono::milliseconds;
using Limit = std::optional<Milliseconds>;  // nothing: as long as it takes

inline constexpr size_t kMaxErrorText = 1000;  // of a message from a sandbox

// Connects to a vsock port of the sandbox's.
using Dial = std::function<sys::Fd(uint32_t port)>;
// By the socket at `path` that takes "CONNECT <port>" and answers with a line "OK …"; `interrupt`
// as below.
Dial dial_by_socket(std::string path, int interrupt = -1);

class Connection {
 public:
  // `interrupt` is borrowed, -1 for none: a descriptor that ends any wait by becoming readable.
  explicit Connection(sys::Fd socket, int interrupt = -1);
  // Error{Unavailable} when nobody listens there.
  static Connection connect(const std::string& control_socket, int interrupt = -1);
  // Without this large files go in frames like all else.
  void set_dial(Dial dial) { dial_ = std::move(dial); }
  const Dial& dial() const noexcept { return dial_; }

  // ---- short calls ----
  // Sends one Request and returns what its End has under "ok". The greeting and the request leave
  // in one write.
  Bytes request(ByteView request, Limit limit);
  void ping(Limit limit);
  proto::AgentInfo info(Limit limit);
  proto::Metrics metrics(Limit limit);
  void sync_time(uint64_t unix_nanoseconds, Limit limit);
  // The sandbox powers off after the answer.
  void shutdown(const proto::ShutdownRequest& options, Limit limit);
  proto::SandboxStatus status(Limit limit);
  void wait_ready(Limit limit);
  proto::SandboxEnd wait_end(Limit limit);
  proto::SandboxEnd stop(const proto::StopRequest& options, Limit limit);

  // ---- a conversation, for the calls that move data ----
  void start(ByteView request, Call::Kind kind);
  // How much may be sent at once; 0: wait first.
  size_t room() const noexcept;
  void send_data(ByteView data);
  void send_end_of_data();
  // Sends what the socket takes of it at once: for before something that may take long. wait() does
  // this too.
  void send_now();
  // Waits for the next frame that means something: Data, Credit or the End of a call that went
  // well. An End with an error is thrown. `limit` is for this wait. The payload is valid until the
  // next wait.
  Incoming wait(Limit limit);
  // The same, or nothing once `other`, a socket, can take some.
  std::optional<Incoming> wait_or_writable(int other, Limit limit);
  // For Data that has left our hands.
  void consumed(size_t length);
  // Ends the connection because of something on our side, so that the sandbox stops too.
  void close() noexcept { socket_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;

  void flush();
  // False when it was not the socket, but that `other` can be written to.
  bool wait_for_socket(std::optional<Clock::time_point> deadline, Limit limit, int other);
  void receive();
  std::optional<Incoming> next_incoming();
  void greet(const proto::Frame& frame);
  [[noreturn]] void fail(mvm::Kind kind, std::string message);
  [[noreturn]] void garbage(const char* what);

  sys::Fd socket_;
  int interrupt_;
  Dial dial_;
  proto::FrameDecoder decoder_;
  Bytes out_;
  size_t out_begin_ = 0;
  bool said_hello_ = false;
  bool greeted_ = false;
  uint32_t next_stream_ = 1;
  std::optional<Call> call_;
};

}
