#pragma once
// The far side of a Connection, as a test wants it: a thread that plays a script on one end of a
// socket pair.

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "mvm/agent/connection.h"
#include "mvm/proto/control.h"
#include "mvm/proto/frame.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::agent {

class Peer {
 public:
  using Script = std::function<void(Peer&)>;

  explicit Peer(Script script) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    client_ = std::move(ours);
    socket_ = std::move(theirs);
    thread_ = std::thread([this, play = std::move(script)] { play(*this); });
  }
  // Every script ends by itself: once the client is gone, or after it was read to its end.
  ~Peer() { thread_.join(); }

  sys::Fd client() { return std::move(client_); }

  // ---- for scripts ----
  // False when the client has gone.
  bool raw(ByteView data) {
    try {
      while (!data.empty()) {
        wait_writable();
        data = data.subspan(sys::send_some(socket_.get(), data).value_or(0));
      }
      return true;
    } catch (const Error&) {
      return false;
    }
  }
  bool send(uint32_t stream, proto::FrameType type, ByteView payload = {}) {
    Bytes out;
    proto::append_frame(out, stream, type, payload);
    return raw(out);
  }
  bool hello(uint32_t version = proto::kProtocolVersion) {
    return send(proto::kConnectionStream, proto::FrameType::Hello,
                proto::Hello{version, "agent", "test"}.encode());
  }
  bool ok(uint32_t stream, ByteView result = {}) {
    return send(stream, proto::FrameType::End, proto::encode_ok(result));
  }
  struct Received {
    uint32_t stream;
    proto::FrameType type;
    Bytes payload;
  };
  // The next frame; nothing when the client has closed.
  std::optional<Received> receive() {
    while (true) {
      if (const auto frame = decoder_.next())
        return Received{frame->stream, frame->type, {frame->payload.begin(), frame->payload.end()}};
      try {
        const auto got = sys::read_some(socket_.get(), decoder_.space());
        if (got.value_or(0) == 0) return std::nullopt;
        decoder_.commit(*got);
      } catch (const Error&) {
        return std::nullopt;
      }
    }
  }
  // Greets, and takes the client's greeting and request.
  Received accept() {
    hello();
    receive();
    return receive().value_or(Received{});
  }
  void read_to_end() {
    while (receive()) {
    }
  }
  void close() { socket_.reset(); }

 private:
  void wait_writable();

  sys::Fd client_;
  sys::Fd socket_;
  proto::FrameDecoder decoder_;
  std::thread thread_;
};

// What `body` throws; a test failure when it does not.
template <typename Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {Kind::Internal, "none"};
}

}
