#pragma once
// Streams between host programs and the guest's vsock ports.
//
// Host to guest: connect to vsock.sock, write "CONNECT <port>\n", read "OK <port>\n", then bytes.
// Guest to host: a connection to port P of CID 2 reaches whoever listens on vsock.sock_P in the
// sandbox's runtime directory; with nobody there the guest is refused.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "mvm/loop/loop.h"
#include "mvm/sys/fd.h"

namespace mvm::sandbox {

class VsockBridge {
 public:
  static constexpr size_t kMaxHandshakes = 64;

  // `connect` is handed a host program's stream and the guest port it asked for.
  VsockBridge(loop::Loop& loop, sys::Fd listener, sys::Fd runtime_directory,
              std::function<void(sys::Fd, uint32_t port)> connect);

  // The listener for guest connections to `port`, connected; nothing when there is none. The
  // working directory must be the runtime directory.
  std::optional<sys::Fd> dial(uint32_t port) const;
  int directory() const { return runtime_.get(); }

 private:
  struct Handshake {
    sys::Fd fd;
    loop::Watch watch;
    loop::Watch deadline;
  };
  void on_connection();
  void on_line(uint64_t id);

  loop::Loop* loop_;
  sys::Fd listener_;
  sys::Fd runtime_;
  std::function<void(sys::Fd, uint32_t)> connect_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Handshake> handshakes_;
  loop::Watch watch_;
  loop::Watch retry_;
};

}
