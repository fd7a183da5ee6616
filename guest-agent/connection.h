#pragma once
// One connection of the host: frames in, verbs out, and the queue of what is yet to be written.
//
// What the far side can make us keep is bounded: kMaxStreams verbs, a window of Data each, and an
// output queue that bulk data may fill to kHighWater. Small frames (replies) are always queued; a
// host that asks and never reads meets kMaxQueue and is cut off.

#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/proto/frame.h"
#include "mvm/sys/fd.h"

#include "channel.h"

namespace mvm::guest {

// A channel and the verb that uses it; destroyed verb first.
struct StreamSlot {
  StreamSlot(Connection* connection, uint32_t id) : channel(connection, id) {}
  Channel channel;
  std::unique_ptr<Stream> stream;
};

class Connection {
 public:
  static constexpr size_t kHighWater = size_t{512} * 1024;
  static constexpr size_t kLowWater = size_t{128} * 1024;
  static constexpr size_t kSmallPiece = 4096;
  static constexpr size_t kMaxQueue = size_t{8} * 1024 * 1024;

  struct Handler {
    // Makes the verb of a Request, or ends its channel and returns nothing.
    std::function<std::unique_ptr<Stream>(Channel&, std::string_view verb, ByteView payload)> open;
    // Verbs that no longer have this connection and are not at their end.
    std::function<void(std::vector<std::unique_ptr<StreamSlot>>)> released;
    // The connection is closed and holds nothing any more: it may be destroyed.
    std::function<void(Connection&)> closed;
  };

  Connection(loop::Loop& loop, sys::Fd socket, Handler handler);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Writes what is queued, as far as the socket takes it.
  void flush();
  bool closed() const { return !socket_; }
  size_t queued() const { return out_.size() - out_begin_; }

 private:
  friend class Channel;
  void on_ready(uint32_t events);
  void read();
  bool handle(const proto::Frame& frame);  // false: the far side broke the protocol
  bool open_stream(const proto::Frame& frame);
  bool deliver(StreamSlot& slot, const proto::Frame& frame);
  void queue(uint32_t stream, proto::FrameType type, ByteView payload);
  void schedule_sweep();
  void sweep();
  void wake_streams();
  void close();
  void hand_over();

  loop::Loop* loop_;
  sys::Fd socket_;
  Handler handler_;
  proto::FrameDecoder decoder_;
  bool greeted_ = false;
  Bytes out_;
  size_t out_begin_ = 0;
  bool short_of_memory_ = false;  // at the last write
  bool behind_ = false;           // above kHighWater, and not yet below kLowWater again
  bool flushing_ = false;
  std::map<uint32_t, std::unique_ptr<StreamSlot>> streams_;
  loop::Watch watch_;
  loop::Watch sweep_;
};

}
