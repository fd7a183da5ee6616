#pragma once
// The client's half of one conversation of the frame protocol, as a pure state machine: frames in,
// what they mean out. It owns no descriptor and keeps no payload, so what a hostile sandbox can
// make it hold is nothing.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "mvm/proto/credit.h"
#include "mvm/proto/frame.h"

namespace mvm::agent {

// Events carry no credit; no verb of ours has more than a few.
inline constexpr size_t kMaxEvents = 64;

// What one frame from the sandbox means.
struct Incoming {
  enum class What {
    Nothing,  // an event
    Data,     // content; give it back with Call::consume()
    Stdout,   // what a command prints; the same
    Stderr,
    Event,   // of a put: the payload is what it says
    Credit,  // more may be sent
    Eof,     // no more Data will come, more may be sent
    End,     // the last of this call; the payload is proto::End
    Fault,   // the sandbox breaks the protocol; the connection is of no more use
  };
  What what = What::Nothing;
  ByteView payload;             // of all with content and End, as long as the frame's own
  const char* fault = nullptr;  // with Fault: in which way
};

class Call {
 public:
  enum class Kind { Unary, Put, Get, Duplex, Exec };
  Call(uint32_t stream, Kind kind) noexcept : stream_(stream), kind_(kind) {}

  Incoming on_frame(const proto::Frame& frame) noexcept;

  uint32_t stream() const noexcept { return stream_; }
  bool ended() const noexcept { return ended_; }
  // Bytes of Data that may be sent now.
  size_t credit() const noexcept { return sends() && !ended_ ? send_.available() : 0; }
  void spend(size_t length) noexcept { send_.spend(length); }
  // Credit to send back now, if it is worth a frame.
  std::optional<uint32_t> consume(size_t length) noexcept { return receive_.consume(length); }

 private:
  bool sends() const noexcept {
    return kind_ == Kind::Put || kind_ == Kind::Duplex || kind_ == Kind::Exec;
  }
  bool receives() const noexcept { return kind_ == Kind::Get || kind_ == Kind::Duplex; }

  uint32_t stream_;
  Kind kind_;
  proto::SendWindow send_;
  proto::ReceiveWindow receive_;
  size_t events_ = 0;
  bool eof_ = false;
  bool ended_ = false;
};

}
