// A socket is polled only for what can be done with it: for input while the guest has room, for
// output while bytes wait. epoll reports a hang-up whether asked or not, so a socket whose input
// has to wait is taken out of the loop altogether; one whose input has ended stays for just that,
// since a host program that dies has to be told of.
#include "host_streams.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::monitor {

using virtio::StreamId;
using virtio::VsockEvent;

// How long the guest may take to accept or refuse a connection.
static constexpr std::chrono::seconds kConnectTime{30};
// Reads for one stream before others have their turn.
static constexpr int kReadsPerTurn = 4;
// Room for a read: taking more of the guest's buffers than will be filled costs as much as filling
// them.
static constexpr size_t kLeastRoom = 4096;
static constexpr size_t kMostRoom = virtio::Vsock::kMaxPayload;

HostStreams::HostStreams(loop::Loop& loop, std::function<void(Token, uint32_t)> on_guest_connect)
    : loop_(&loop), on_guest_connect_(std::move(on_guest_connect)) {}

void HostStreams::attach(DeviceSlot& slot, virtio::Vsock& device) {
  slot_ = &slot;
  device_ = &device;
}

HostStreams::Stream* HostStreams::find(Token token) {
  const auto found = streams_.find(token);
  return found == streams_.end() ? nullptr : &found->second;
}

void HostStreams::add(StreamId id, sys::Fd socket, bool open, bool announce) {
  sys::set_nonblocking(socket.get());
  Stream& stream = streams_[token_of(id)];
  stream.socket = std::move(socket);
  stream.open = open;
  stream.announce = announce;
  update_watch(token_of(id), stream);
}

void HostStreams::connect(sys::Fd socket, uint32_t port, bool announce) {
  const auto id = slot_->with_lock([&] { return device_->open(port); });
  if (id) {
    add(*id, std::move(socket), false, announce);
    streams_.at(token_of(*id)).deadline = loop_->after(kConnectTime, [this, stream = *id] {
      slot_->with_lock([&] { device_->reset(stream); });
      streams_.erase(token_of(stream));
      handle_events();
    });
  }
  handle_events();
}

void HostStreams::accept(Token token, sys::Fd socket) {
  // Known before the device is told: accepting may deliver at once what the guest has sent.
  add(id_of(token), std::move(socket), true, false);
  answered();
  if (!slot_->with_lock([&] { return device_->accept(id_of(token)); })) streams_.erase(token);
  handle_events();
}

void HostStreams::refuse(Token token) {
  answered();
  slot_->with_lock([&] { device_->refuse(id_of(token)); });
  handle_events();
}

size_t HostStreams::write(StreamId id, std::span<const iovec> data) noexcept {
  Stream* stream = find(token_of(id));
  if (stream == nullptr || stream->broken) return 0;
  ssize_t taken = -1;
  do {
    taken = ::writev(stream->socket.get(), data.data(), static_cast<int>(data.size()));
  } while (taken < 0 && errno == EINTR);
  if (taken >= 0) return static_cast<size_t>(taken);
  if (errno != EAGAIN) stream->broken = any_broken_ = true;
  return 0;
}

void HostStreams::update_watch(Token token, Stream& stream) {
  if (!stream.open || (!stream.input && !stream.input_ended && !stream.output)) {
    stream.events = 0;
    stream.watch.reset();
    return;
  }
  const uint32_t wanted = (stream.input && !stream.input_ended ? uint32_t{EPOLLIN} : 0U) |
                          (stream.output ? uint32_t{EPOLLOUT} : 0U);
  if (stream.watch && wanted == stream.events) return;
  stream.events = wanted;
  if (stream.watch) {
    stream.watch.set_events(wanted);
  } else {
    try {
      stream.watch = loop_->watch(stream.socket.get(), wanted,
                                  [this, token](uint32_t events) { on_ready(token, events); });
    } catch (const SystemError&) {
      stream.broken = any_broken_ = true;  // the host is short of memory: this stream ends, no more
    }
  }
}

// Nobody holds the other end: what it sent has been passed on, and what is sent to it is lost.
void HostStreams::hung_up(Token token) {
  slot_->with_lock([&] { device_->close(id_of(token)); });
  streams_.erase(token);
}

void HostStreams::on_ready(Token token, uint32_t events) {
  if (Stream* stream = find(token);
      stream != nullptr && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0 && stream->output) {
    stream->output = !slot_->with_lock([&] { return device_->drain(id_of(token)); });
    update_watch(token, *stream);
  }
  handle_events();
  if (Stream* stream = find(token);
      stream != nullptr && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    if (!stream->input_ended)
      read_input(token);
    else if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !stream->output)
      hung_up(token);
  }
  handle_events();
}

// False when there is no more to be had for now. The guest hears of each read, so that it can work
// on what it has while we read on.
bool HostStreams::read_once(StreamId id, Stream& stream) {
  if (stream.input_ended) return false;
  const auto room = device_->begin_rx(id, std::clamp(stream.appetite, kLeastRoom, kMostRoom));
  if (room.empty()) {
    stream.input = false;  // until the event Input
    return false;
  }
  ssize_t got = -1;
  do {
    got = ::readv(stream.socket.get(), room.data(), static_cast<int>(room.size()));
  } while (got < 0 && errno == EINTR);
  const size_t bytes = got > 0 ? static_cast<size_t>(got) : 0;
  device_->commit_rx(id, bytes);
  stream.appetite = 2 * bytes;
  if (got == 0) {
    stream.input_ended = true;
    device_->end_input(id);
  } else if (got < 0 && errno != EAGAIN) {
    stream.broken = any_broken_ = true;
  }
  // A read that does not fill its room has emptied the socket.
  size_t offered = 0;
  for (const iovec& piece : room) offered += piece.iov_len;
  return bytes == offered;
}

void HostStreams::read_input(Token token) {
  Stream& stream = streams_.at(token);
  const StreamId id = id_of(token);
  for (int i = 0; i < kReadsPerTurn; ++i)
    if (!slot_->with_lock([&] { return read_once(id, stream); })) break;
  update_watch(token, stream);
}

void HostStreams::handle_events() {
  while (true) {
    while (const auto event = slot_->with_lock([&] { return device_->next_event(); }))
      handle_event(*event);
    // Sockets that failed in write(), where the device could not be told.
    if (!std::exchange(any_broken_, false)) return;
    for (auto it = streams_.begin(); it != streams_.end();) {
      if (!it->second.broken) {
        ++it;
        continue;
      }
      slot_->with_lock([&] { device_->reset(id_of(it->first)); });
      it = streams_.erase(it);
    }
  }
}

void HostStreams::handle_event(const VsockEvent& event) {
  const Token token = token_of(event.stream);
  if (event.kind == VsockEvent::Kind::ConnectRequest) {
    // The line to the sandbox process holds so many questions; more are a guest's doing, and not
    // worth losing events for.
    if (unanswered_ >= kMaxUnanswered)
      return slot_->with_lock([&] { device_->refuse(event.stream); });
    ++unanswered_;
    return on_guest_connect_(token, event.host_port);
  }
  Stream* stream = find(token);
  if (stream == nullptr) return;
  switch (event.kind) {
    case VsockEvent::Kind::ConnectRequest:
      return;
    case VsockEvent::Kind::Connected:
      stream->open = true;
      stream->deadline.reset();
      if (stream->announce) {
        // An empty socket buffer has room for one short line.
        const std::string line = "OK " + std::to_string(event.host_port) + "\n";
        if (sys::uninterrupted([&] {
              return ::send(stream->socket.get(), line.data(), line.size(), MSG_NOSIGNAL);
            }) < 0)
          stream->broken = any_broken_ = true;
      }
      break;
    case VsockEvent::Kind::Input:
      stream->input = true;
      break;
    case VsockEvent::Kind::PeerStoppedReading:
      stream->input_ended = true;
      ::shutdown(stream->socket.get(), SHUT_RD);
      break;
    case VsockEvent::Kind::Output:
      stream->output = true;
      break;
    case VsockEvent::Kind::EndOfOutput:
      ::shutdown(stream->socket.get(), SHUT_WR);
      break;
    case VsockEvent::Kind::Closed:
      streams_.erase(token);
      return;
  }
  update_watch(token, *stream);
}

}
