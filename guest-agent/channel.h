#pragma once
// What a verb needs of its connection, and what the connection needs of a verb.

#include <cstdint>
#include <functional>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"
#include "mvm/proto/control.h"
#include "mvm/proto/credit.h"
#include "mvm/proto/frame.h"

namespace mvm::guest {

class Connection;

// One stream's way to the host. When the connection is lost it becomes a sink, so that a verb that
// has to go on (a detached command, a process tree being killed) need not know.
class Channel {
 public:
  Channel(Connection* connection, uint32_t id) : connection_(connection), id_(id) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Bytes of bulk data that can be sent now: bounded by credit, by the frame, and 0 while the
  // connection is behind. Stream::on_writable() tells when it may have grown.
  size_t room() const;
  void bulk(proto::FrameType type, ByteView data);  // at most room()
  void event(ByteView payload);
  void eof();  // no more bulk data will come
  // The last word. The verb is destroyed in a later turn; nothing may be sent after.
  void end(ByteView payload);
  void fail(Kind kind, std::string message) {
    end(proto::encode_error({kind, std::move(message)}));
  }
  // What `work` cannot do, for want of memory or descriptors, ends this verb and no other: a loop's
  // handler must not throw, for with it the agent would end, and the machine.
  template <typename Work>
  void guard(const Work& work) {
    try {
      work();
    } catch (const Error& error) {
      if (!ended_) fail(error.kind(), error.message());
    }
  }
  // The last word to this host, while the verb goes on: what it sends from now on is dropped, and
  // end() only marks it as done.
  void release(Kind kind, std::string message);
  // Data of the host that has left our hands: gives credit back.
  void consumed(size_t length);

  bool ended() const { return ended_; }
  bool is_open() const { return !ended_ && connection_ != nullptr; }
  bool lost() const { return connection_ == nullptr; }
  // Whoever keeps a verb that has lost its connection is told of its end.
  void when_ended(std::function<void()> ended) { when_ended_ = std::move(ended); }

 private:
  friend class Connection;
  Connection* connection_;
  uint32_t id_;
  bool ended_ = false;
  std::function<void()> when_ended_;
  proto::SendWindow send_;
  proto::ReceiveWindow receive_;
};

// A verb in progress.
class Stream {
 public:
  explicit Stream(Channel& channel) : channel_(&channel) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Data (already charged to the window), Eof, Signal, Resize, Cancel. The payload is valid during
  // the call only.
  virtual void on_frame(const proto::Frame& frame) = 0;
  virtual void on_writable() = 0;
  // The connection is gone. A verb that has nothing left to do ends its channel here; one that has
  // ends it later.
  virtual void on_lost() = 0;

 protected:
  Channel& channel() const { return *channel_; }

 private:
  Channel* channel_;
};

}
