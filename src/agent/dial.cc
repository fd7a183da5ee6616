// A vsock port of the sandbox's by way of its process's socket (src/sandbox/vsock_bridge.h).
#include <array>
#include <cerrno>
#include <string>

#include <poll.h>

#include "mvm/agent/connection.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::agent {

// The monitor gives the guest half of this to take or refuse a connection.
static constexpr int kAnswerLimitMs = 60'000;
static constexpr size_t kMaxLine = 32;

static void wait_readable(int fd, int interrupt) {
  std::array<pollfd, 2> entries{pollfd{fd, POLLIN, 0}, pollfd{interrupt, POLLIN, 0}};
  int ready = -1;
  while ((ready = ::poll(entries.data(), entries.size(), kAnswerLimitMs)) < 0)
    if (errno != EINTR) throw SystemError(errno, "waiting for the sandbox");
  if (entries[1].revents != 0) throw Error(Kind::Unavailable, "interrupted");
  if (ready == 0) throw Error(Kind::Timeout, "the sandbox does not connect its vsock port");
}

static sys::Fd dial(const std::string& path, uint32_t port, int interrupt) {
  auto socket = sys::connect_unix(path, sys::Blocking::No);
  if (!socket) throw Error(Kind::Unavailable, "the sandbox does not answer on " + path);
  // The first that the socket carries: it takes so little whole.
  sys::send_some(socket->get(), as_bytes("CONNECT " + std::to_string(port) + "\n"));
  // Byte by byte, for what is behind the line is the guest's.
  std::string said;
  while (!said.ends_with('\n')) {
    std::byte next{};
    const auto got = sys::read_some(socket->get(), {&next, 1});
    if (!got) {
      wait_readable(socket->get(), interrupt);
      continue;
    }
    if (*got == 0)
      throw Error(Kind::Unavailable, "nobody takes connections on the sandbox's vsock port");
    said += static_cast<char>(next);
    if (said.size() > kMaxLine) break;
  }
  if (!said.starts_with("OK "))
    throw Error(Kind::Unavailable, "not an answer of the sandbox's vsock socket");
  return std::move(*socket);
}

Dial dial_by_socket(std::string path, int interrupt) {
  return [path = std::move(path), interrupt](uint32_t port) { return dial(path, port, interrupt); };
}

}
