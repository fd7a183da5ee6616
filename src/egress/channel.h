#pragma once
// One end of an inspected connection: plaintext for whoever inspects it, TLS or plain bytes on its
// socket. Holds only what the socket does not take at once; whoever sends looks at unsent() and
// stops reading elsewhere.

#include <optional>

#include "mvm/crypto/tls.h"
#include "mvm/loop/loop.h"
#include "mvm/policy/reason.h"

namespace mvm::egress {

class Channel {
 public:
  explicit Channel(sys::Fd socket) : socket_(std::move(socket)) {}
  Channel(sys::Fd socket, crypto::TlsEngine engine)
      : socket_(std::move(socket)), engine_(std::move(engine)) {}

  enum class State : uint8_t {
    Open,
    Ended,   // the peer has said all, in good order
    Failed,  // by the transport or by TLS: failure() of the engine tells
  };
  // Reads once, at most `limit` bytes of the socket, and appends the plaintext to `into`. Nothing
  // to read is Open with nothing appended.
  State receive(Bytes& into, size_t limit);
  // Bytes that receive() has taken from the socket in all.
  uint64_t taken() const noexcept { return taken_; }
  uint64_t given() const noexcept { return given_; }  // and flush() given to it

  // Takes all of it: what does not fit into the socket is kept.
  void send(ByteView data);
  void send(std::string_view text) { send(as_bytes(text)); }
  // Writes what waits. False: the transport is lost.
  bool flush();
  size_t unsent() const noexcept;  // bytes that wait
  // After all that was sent: nothing more comes.
  void finish();
  // Of a server that says nothing more: why, and which reason that is where it had been admitted.
  struct Lost {
    policy::Reason reason;
    std::string why;
  };
  Lost how_lost() const;
  // The engine may have made output by itself (handshake).
  bool wants_write() const noexcept { return unsent() > 0 || (finishing_ && !finished_); }
  // Plaintext or ciphertext is here already; the socket will not tell.
  bool holds_input() const noexcept;

  crypto::TlsEngine* engine() noexcept { return engine_ ? &*engine_ : nullptr; }
  bool open() const noexcept {
    return !engine_ || engine_->phase() == crypto::TlsPhase::Open ||
           engine_->phase() == crypto::TlsPhase::Closed;
  }
  int fd() const noexcept { return socket_.get(); }
  sys::Fd take_socket() noexcept { return std::move(socket_); }

 private:
  State decrypt(ByteView input, Bytes& into);
  void encrypt();

  sys::Fd socket_;
  std::optional<crypto::TlsEngine> engine_;
  Bytes held_;     // ciphertext that the engine did not take yet
  Bytes waiting_;  // plaintext that the engine, or the socket, did not take yet
  size_t waiting_at_ = 0;
  bool heard_ = false;  // plaintext, from the peer
  bool finishing_ = false;
  bool finished_ = false;
  uint64_t taken_ = 0;
  uint64_t given_ = 0;
};

}
