#include "connection.h"

#include <algorithm>
#include <cerrno>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "version.h"

namespace mvm::guest {

using proto::Frame;
using proto::FrameType;

// ---- channel ----------------------------------------------------------------------------------

size_t Channel::room() const {
  if (connection_ == nullptr) return proto::kMaxPayload;  // a sink takes everything
  if (connection_->behind_) return 0;
  return std::min(send_.available(), proto::kMaxPayload);
}

void Channel::bulk(FrameType type, ByteView data) {
  if (connection_ == nullptr || data.empty()) return;
  send_.spend(data.size());
  connection_->queue(id_, type, data);
}

void Channel::event(ByteView payload) {
  if (connection_ != nullptr) connection_->queue(id_, FrameType::Event, payload);
}

void Channel::eof() {
  if (connection_ != nullptr) connection_->queue(id_, FrameType::Eof, {});
}

void Channel::end(ByteView payload) {
  MVM_ASSERT(!ended_);
  ended_ = true;
  if (when_ended_) when_ended_();
  if (connection_ == nullptr) return;
  connection_->queue(id_, FrameType::End, payload);
  connection_->schedule_sweep();
}

void Channel::release(Kind kind, std::string message) {
  if (connection_ == nullptr) return;
  connection_->queue(id_, FrameType::End, proto::encode_error({kind, std::move(message)}));
  connection_->schedule_sweep();
  connection_ = nullptr;
}

void Channel::consumed(size_t length) {
  const auto credit = receive_.consume(length);
  // Behind the End a stream is not known any more.
  if (credit && connection_ != nullptr && !ended_)
    connection_->queue(id_, FrameType::Window, std::as_bytes(std::span(&*credit, 1)));
}

// ---- connection -------------------------------------------------------------------------------

Connection::Connection(loop::Loop& loop, sys::Fd socket, Handler handler)
    : loop_(&loop), socket_(std::move(socket)), handler_(std::move(handler)) {
  sys::set_nonblocking(socket_.get());
  watch_ = loop.watch(socket_.get(), EPOLLIN, [this](uint32_t events) { on_ready(events); });
  queue(proto::kConnectionStream, FrameType::Hello,
        proto::Hello{proto::kProtocolVersion, "agent", std::string(kAgentVersion)}.encode());
}

void Connection::on_ready(uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush();
  if (!closed() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read();
}

void Connection::read() {
  size_t got = 0;
  try {
    const auto count = sys::read_some(socket_.get(), decoder_.space());
    if (!count) return;
    got = *count;
  } catch (const SystemError& error) {
    if (error.errno_value() == ENOMEM) return;  // the loop comes back to it
    got = 0;                                    // a reset connection has ended like any other
  }
  if (got == 0) {
    close();
    return;
  }
  decoder_.commit(got);
  while (!closed()) {
    const auto frame = decoder_.next();
    if (!frame) break;
    if (!handle(*frame)) close();
  }
  // Replies pile up only where the far side asks and does not read.
  if (!closed() && (decoder_.fault() || queued() > kMaxQueue)) close();
}

bool Connection::handle(const Frame& frame) {
  if (frame.stream == proto::kConnectionStream) {
    if (frame.type != FrameType::Hello || greeted_) return false;
    const auto hello = proto::Hello::decode(frame.payload);
    greeted_ = hello && hello->version == proto::kProtocolVersion;
    return greeted_;
  }
  if (!greeted_) return false;
  if (frame.type == FrameType::Request) return open_stream(frame);
  const auto found = streams_.find(frame.stream);
  // Our End and their frame may cross on the way.
  if (found == streams_.end() || !found->second->channel.is_open()) return true;
  return deliver(*found->second, frame);
}

bool Connection::open_stream(const Frame& frame) {
  if (streams_.contains(frame.stream)) return false;
  const auto refuse = [&](Kind kind, const char* why) {
    queue(frame.stream, FrameType::End, proto::encode_error({kind, why}));
    return true;
  };
  if (streams_.size() >= proto::kMaxStreams) return refuse(Kind::Exhausted, "too many streams");
  const auto verb = proto::request_verb(frame.payload);
  if (!verb) return refuse(Kind::Invalid, "the request has no verb");
  auto& slot = streams_[frame.stream];
  slot = std::make_unique<StreamSlot>(this, frame.stream);
  try {
    slot->stream = handler_.open(slot->channel, *verb, frame.payload);
  } catch (const Error& error) {
    slot->channel.fail(error.kind(), error.message());
  }
  MVM_ASSERT(slot->stream || slot->channel.ended());
  return true;
}

bool Connection::deliver(StreamSlot& slot, const Frame& frame) {
  Channel& channel = slot.channel;
  switch (frame.type) {
    case FrameType::Window: {
      const auto credit = proto::decode_window(frame.payload);
      if (!credit || !channel.send_.grant(*credit)) return false;
      channel.guard([&] { slot.stream->on_writable(); });
      return true;
    }
    case FrameType::Data:
      if (!channel.receive_.receive(frame.payload.size())) return false;
      break;
    case FrameType::Eof:
    case FrameType::Signal:
    case FrameType::Resize:
    case FrameType::Cancel:
      break;
    default:
      return false;  // only servers send the others
  }
  channel.guard([&] { slot.stream->on_frame(frame); });
  return true;
}

void Connection::queue(uint32_t stream, FrameType type, ByteView payload) {
  proto::append_frame(out_, stream, type, payload);
  if (queued() > kHighWater) behind_ = true;
  // Written at the end of this turn, together with whatever else it produces.
  if (!flushing_) watch_.set_events(EPOLLIN | EPOLLOUT);
  flushing_ = true;
}

void Connection::flush() {
  if (closed()) return;
  try {
    while (queued() > 0) {
      const size_t most = std::min(queued(), short_of_memory_ ? kSmallPiece : queued());
      const auto sent = sys::write_some(socket_.get(), ByteView(out_).subspan(out_begin_, most));
      if (!sent) break;
      out_begin_ += *sent;
      short_of_memory_ = false;
    }
  } catch (const SystemError& error) {
    // The loop comes back to it. (A packet of vsock takes memory in one piece, up to 64 KiB.)
    short_of_memory_ = error.errno_value() == ENOMEM;
    if (!short_of_memory_) close();
    return;
  }
  if (queued() == 0) {
    out_.clear();
    out_begin_ = 0;
    watch_.set_events(EPOLLIN);
    flushing_ = false;
  } else if (out_begin_ >= kHighWater) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
    out_begin_ = 0;
  }
  if (behind_ && queued() <= kLowWater) {
    behind_ = false;
    wake_streams();
  }
}

void Connection::wake_streams() {
  // Streams are only ever erased by sweep(), which runs in a turn of its own.
  for (const auto& [id, owner] : streams_) {
    StreamSlot* const slot = owner.get();
    if (slot->stream && slot->channel.is_open())
      slot->channel.guard([slot] { slot->stream->on_writable(); });
  }
}

// Ended verbs are destroyed in a turn of their own, never while one of their functions runs.
void Connection::schedule_sweep() {
  if (!sweep_) sweep_ = loop_->after(std::chrono::milliseconds(0), [this] { sweep(); });
}

void Connection::sweep() {
  sweep_.reset();
  std::vector<std::unique_ptr<StreamSlot>> released;
  for (auto entry = streams_.begin(); entry != streams_.end();) {
    const Channel& channel = entry->second->channel;
    if (channel.is_open()) {
      ++entry;
      continue;
    }
    if (!channel.ended()) released.push_back(std::move(entry->second));
    entry = streams_.erase(entry);
  }
  if (!released.empty()) handler_.released(std::move(released));
}

void Connection::close() {
  if (closed()) return;
  watch_.reset();
  socket_.reset();
  for (auto& [id, slot] : streams_) slot->channel.connection_ = nullptr;
  // In a turn of its own, for a function of one of these verbs may be what led here.
  sweep_ = loop_->after(std::chrono::milliseconds(0), [this] { hand_over(); });
}

void Connection::hand_over() {
  std::vector<std::unique_ptr<StreamSlot>> slots;
  for (auto& [id, slot] : streams_)
    if (!slot->channel.ended()) slots.push_back(std::move(slot));
  streams_.clear();
  handler_.released(std::move(slots));
  handler_.closed(*this);
}

}
