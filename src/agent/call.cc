#include "mvm/agent/call.h"

namespace mvm::agent {

using proto::FrameType;

static Incoming fault(const char* text) noexcept {
  Incoming incoming;
  incoming.what = Incoming::What::Fault;
  incoming.fault = text;
  return incoming;
}

Incoming Call::on_frame(const proto::Frame& frame) noexcept {
  if (frame.stream != stream_) return fault("a frame of a conversation that is not open");
  if (ended_) return fault("a frame after the end");
  Incoming incoming;
  switch (frame.type) {
    case FrameType::Data:
      if (!receives()) return fault("data that nobody asked for");
      if (eof_) return fault("data after its end");
      if (!receive_.receive(frame.payload.size())) return fault("more data than it may send");
      incoming.what = Incoming::What::Data;
      incoming.payload = frame.payload;
      return incoming;
    case FrameType::Stdout:
    case FrameType::Stderr:
      if (kind_ != Kind::Exec) return fault("output where no command runs");
      if (!receive_.receive(frame.payload.size())) return fault("more output than it may send");
      incoming.what =
          frame.type == FrameType::Stdout ? Incoming::What::Stdout : Incoming::What::Stderr;
      incoming.payload = frame.payload;
      return incoming;
    case FrameType::Window: {
      const auto credit = proto::decode_window(frame.payload);
      if (!credit || !send_.grant(*credit)) return fault("credit for what was never sent");
      incoming.what = Incoming::What::Credit;
      return incoming;
    }
    case FrameType::Event:
      if (++events_ > kMaxEvents) return fault("events without end");
      if (kind_ != Kind::Put) return incoming;
      incoming.what = Incoming::What::Event;
      incoming.payload = frame.payload;
      return incoming;
    case FrameType::Eof:
      if (kind_ != Kind::Duplex || eof_) return fault("an end of data where none can be");
      eof_ = true;
      incoming.what = Incoming::What::Eof;
      return incoming;
    case FrameType::End:
      ended_ = true;
      incoming.what = Incoming::What::End;
      incoming.payload = frame.payload;
      return incoming;
    default:
      return fault("a frame that makes no sense here");
  }
}

}
