#pragma once
// One connection that speaks frames (proto/frame.h) on the loop: to a client of the control socket,
// or to the agent.

#include <functional>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/loop/loop.h"
#include "mvm/proto/frame.h"
#include "mvm/sys/fd.h"

namespace mvm::sandbox {

class Channel {
 public:
  // What may wait to be written: all streams of a connection with their windows full, and some for
  // the small frames.
  static constexpr size_t kMaxQueued = 80 << 20;

  struct Handlers {
    std::function<void(const proto::Frame&)> on_frame;
    // The peer is gone, broke the protocol, or let kMaxQueued pile up. Called once; the owner then
    // drops the channel.
    std::function<void()> on_closed;
    // Some of what was queued has been written; may be empty.
    std::function<void()> on_sent;
  };

  // Whether descriptors that the peer passes are taken, or closed by the kernel unseen.
  enum class Descriptors { Refused, Taken };

  // `fd` is a connected stream socket.
  Channel(loop::Loop& loop, sys::Fd fd, Handlers handlers,
          Descriptors descriptors = Descriptors::Refused);

  // Queues one frame, and writes what the socket takes.
  void send(uint32_t stream, proto::FrameType type, ByteView payload = {});
  size_t queued() const { return out_.size() - sent_; }
  // What came was no frame: why it was closed, when it was.
  bool broke_protocol() const { return static_cast<bool>(decoder_.fault()); }
  // What was passed last, with the frame that is being handled or one before it.
  std::vector<sys::Fd> take_descriptors() { return std::exchange(passed_, {}); }
  // While paused nothing is read from the peer, so it feels back-pressure.
  void pause_reading(bool paused);
  // Ends the connection once everything queued is written.
  void close_when_sent();
  // The owner is done with it, perhaps inside one of its handlers: no handler is called any more,
  // not even for frames that have been read already.
  void abandon() noexcept;

 private:
  void on_ready(uint32_t events);
  void read_frames();
  void deliver();
  void flush();
  void update_events();
  void closed();

  loop::Loop* loop_;
  sys::Fd fd_;
  Handlers handlers_;
  bool takes_descriptors_;
  std::vector<sys::Fd> passed_;
  proto::FrameDecoder decoder_;
  Bytes out_;
  size_t sent_ = 0;
  bool paused_ = false;
  bool closing_ = false;
  bool closed_ = false;
  uint32_t events_ = 0;
  loop::Watch watch_;
  loop::Watch resume_;
};

}
