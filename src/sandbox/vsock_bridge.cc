#include "vsock_bridge.h"

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "mvm/base/bytes.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

static constexpr std::string_view kConnect = "CONNECT ";
static constexpr size_t kMaxLine = 32;  // "CONNECT 4294967295\n" with room
static constexpr std::chrono::seconds kHandshakeTime{10};
static constexpr std::chrono::milliseconds kRetryTime{100};

VsockBridge::VsockBridge(loop::Loop& loop, sys::Fd listener, sys::Fd runtime_directory,
                         std::function<void(sys::Fd, uint32_t)> connect)
    : loop_(&loop),
      listener_(std::move(listener)),
      runtime_(std::move(runtime_directory)),
      connect_(std::move(connect)) {
  sys::set_nonblocking(listener_.get());
  watch_ = loop.watch(listener_.get(), EPOLLIN, [this](uint32_t) { on_connection(); });
}

void VsockBridge::on_connection() {
  std::optional<sys::Fd> fd;
  try {
    fd = sys::accept_connection(listener_.get());
  } catch (const Error&) {
    // Out of descriptors, for a moment one hopes: the caller waits in the queue meanwhile.
    watch_.set_events(0);
    retry_ = loop_->after(kRetryTime, [this] { watch_.set_events(EPOLLIN); });
    return;
  }
  if (!fd || handshakes_.size() >= kMaxHandshakes) return;  // the surplus is closed
  const uint64_t id = next_id_++;
  Handshake& handshake = handshakes_[id];
  handshake.fd = std::move(*fd);
  handshake.watch =
      loop_->watch(handshake.fd.get(), EPOLLIN | EPOLLET, [this, id](uint32_t) { on_line(id); });
  handshake.deadline = loop_->after(kHandshakeTime, [this, id] { handshakes_.erase(id); });
}

// Looks without taking, so that not a byte behind the line is swallowed: it belongs to the guest.
void VsockBridge::on_line(uint64_t id) {
  const auto found = handshakes_.find(id);
  if (found == handshakes_.end()) return;
  std::array<char, kMaxLine> buffer{};
  const int fd = found->second.fd.get();
  const ssize_t seen = ::recv(fd, buffer.data(), buffer.size(), MSG_PEEK);
  if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (seen <= 0) {
    handshakes_.erase(found);
    return;
  }
  const std::string_view text(buffer.data(), static_cast<size_t>(seen));
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) {
    // A peek leaves the bytes there, so the socket stays readable: take them out of the way by
    // looking at the length.
    if (text.size() == kMaxLine || !kConnect.starts_with(text.substr(0, kConnect.size())))
      handshakes_.erase(found);
    return;
  }
  const auto port = text.starts_with(kConnect)
                        ? parse_u64(text.substr(kConnect.size(), end - kConnect.size()))
                        : std::nullopt;
  if (!port || *port == 0 || *port > UINT32_MAX) {
    handshakes_.erase(found);
    return;
  }
  // The bytes are there: this takes just the line.
  static_cast<void>(!::recv(fd, buffer.data(), end + 1, 0));
  sys::Fd stream = std::move(found->second.fd);
  found->second.watch.reset();
  handshakes_.erase(found);
  connect_(std::move(stream), static_cast<uint32_t>(*port));
}

std::optional<sys::Fd> VsockBridge::dial(uint32_t port) const {
  try {
    // The working directory is the runtime directory: the sandbox process knows no path.
    return sys::connect_unix("vsock.sock_" + std::to_string(port), sys::Blocking::No);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}
