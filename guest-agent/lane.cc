#include "lane.h"

#include <linux/vm_sockets.h>
#include <sys/socket.h>

#include "mvm/sys/error.h"
#include "mvm/sys/io.h"

#include "server.h"

namespace mvm::guest {

// What the kernel takes of the host's while we write to the disk. Larger, it would only hold more.
static constexpr uint64_t kBuffer = 1 << 20;

LaneListener listen_vsock_lane() {
  LaneListener listener{listen_vsock(VMADDR_PORT_ANY), 0};
  const int fd = listener.socket.get();
  // Connections inherit them. Small buffers are no failure.
  ::setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE, &kBuffer, sizeof kBuffer);
  ::setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &kBuffer, sizeof kBuffer);
  sockaddr_vm address{};
  socklen_t length = sizeof address;
  sys::check(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length),
             "asking for a vsock port");
  listener.port = address.svm_port;
  return listener;
}

sys::Fd accept_host(int listener, bool& drained) {
  sockaddr_vm peer{};
  socklen_t size = sizeof peer;
  sys::Fd socket(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  drained = !socket;
  if (socket && peer.svm_family == AF_VSOCK && peer.svm_cid != VMADDR_CID_HOST) socket.reset();
  return socket;
}

Lane::Lane(loop::Loop& loop, LaneListener listener, Channel& channel,
           std::function<void()> on_readable)
    : loop_(&loop),
      channel_(&channel),
      listener_(std::move(listener)),
      on_readable_(std::move(on_readable)) {
  sys::set_nonblocking(listener_.socket.get());
  watch_ = loop.watch(listener_.socket.get(), EPOLLIN,
                      [this](uint32_t) { channel_->guard([&] { accept(); }); });
}

void Lane::accept() {
  bool drained = false;
  while (!socket_ && !drained) socket_ = accept_host(listener_.socket.get(), drained);
  if (!socket_) return;
  watch_ = loop_->watch(socket_.get(), EPOLLIN,
                        [this](uint32_t) { channel_->guard([&] { on_readable_(); }); });
  listener_.socket.reset();
}

}
