#pragma once
// The host ends of the guest's vsock streams: one socket each, moved by the loop thread. Bytes to
// the guest are read straight into its buffers and bytes from it written straight out of them.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"
#include "mvm/virtio/vsock.h"

#include "device_slot.h"

namespace mvm::monitor {

class HostStreams : public virtio::VsockHost {
 public:
  // Names a stream towards the sandbox process.
  using Token = uint64_t;
  // Questions to the sandbox process that wait for an answer.
  static constexpr size_t kMaxUnanswered = 64;

  // `on_guest_connect` is told that the guest asks for `port` of the host; answer with accept() or
  // refuse().
  HostStreams(loop::Loop& loop, std::function<void(Token, uint32_t port)> on_guest_connect);

  // The device is made with this as its host, so it comes later. Both must outlive the streams.
  void attach(DeviceSlot& slot, virtio::Vsock& device);

  // Connects `socket` to `port` of the guest; it is closed when the guest refuses. With `announce`,
  // "OK <port>\n" is written to it once the guest has accepted.
  void connect(sys::Fd socket, uint32_t port, bool announce);
  void accept(Token stream, sys::Fd socket);
  void refuse(Token stream);

  // Acts on what the device has to say; after every call into the device or its transport.
  void handle_events();

  size_t write(virtio::StreamId stream, std::span<const iovec> data) noexcept override;

 private:
  struct Stream {
    sys::Fd socket;
    bool open = false;  // the guest has accepted
    bool announce = false;
    bool input = true;  // the socket may still give bytes, and there may be room for them
    bool input_ended = false;
    bool output = false;  // bytes wait for the socket
    bool broken = false;
    size_t appetite = 0;  // bytes to make room for at the next read, by what the last ones gave
    uint32_t events = 0;
    loop::Watch watch;
    loop::Watch deadline;  // for the guest's answer
  };
  static Token token_of(virtio::StreamId id) { return (uint64_t{id.slot} << 32) | id.generation; }
  static virtio::StreamId id_of(Token token) {
    return {static_cast<uint32_t>(token >> 32), static_cast<uint32_t>(token)};
  }
  void add(virtio::StreamId id, sys::Fd socket, bool open, bool announce);
  void on_ready(Token token, uint32_t events);
  void read_input(Token token);
  void hung_up(Token token);
  bool read_once(virtio::StreamId id, Stream& stream);
  void handle_event(const virtio::VsockEvent& event);
  void update_watch(Token token, Stream& stream);
  Stream* find(Token token);
  void answered() {
    if (unanswered_ > 0) --unanswered_;
  }

  loop::Loop* loop_;
  std::function<void(Token, uint32_t)> on_guest_connect_;
  DeviceSlot* slot_ = nullptr;
  virtio::Vsock* device_ = nullptr;
  size_t unanswered_ = 0;
  bool any_broken_ = false;
  std::map<Token, Stream> streams_;
};

}
