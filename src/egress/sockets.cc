#include "sockets.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

namespace mvm::egress {
namespace {

constexpr int kProbeAfter = 60;  // seconds without a byte
constexpr int kProbeEvery = 15;  // seconds
constexpr int kProbes = 6;       // unanswered, until the peer counts as gone

void set(int socket, int level, int name, int value) noexcept {
  // These are refinements: a socket without them carries bytes too.
  static_cast<void>(::setsockopt(socket, level, name, &value, sizeof value));
}

}

SocketAddress::SocketAddress(const Endpoint& endpoint) noexcept {
  const auto bytes = endpoint.address.bytes();
  if (endpoint.address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(endpoint.port);
    std::memcpy(&v4.sin_addr, bytes.data(), bytes.size());
    length = sizeof v4;
    std::memcpy(&storage, &v4, sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(endpoint.port);
    std::memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
    length = sizeof v6;
    std::memcpy(&storage, &v6, sizeof v6);
  }
}

Endpoint from_sockaddr(const sockaddr_in6& address) noexcept {
  const uint16_t port = ntohs(address.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    IpAddress::V4 v4;
    std::memcpy(v4.data(), address.sin6_addr.s6_addr + 12, v4.size());
    return {IpAddress(v4), port};
  }
  IpAddress::V6 v6;
  std::memcpy(v6.data(), address.sin6_addr.s6_addr, v6.size());
  return {IpAddress(v6), port};
}

std::optional<sys::Fd> open_socket(const IpAddress& peer, int type) noexcept {
  const int family = peer.is_v4() ? AF_INET : AF_INET6;
  const int socket = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return std::nullopt;
  return sys::Fd(socket);
}

std::optional<Endpoint> local_endpoint(int socket) noexcept {
  sockaddr_in6 address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.sin6_family != AF_INET6)
    return std::nullopt;
  return from_sockaddr(address);
}

int pending_error(int socket) noexcept {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

void prepare_stream(int socket) noexcept {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfter);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kProbeEvery);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

size_t memory_of(std::span<const int> sockets) noexcept {
  size_t bytes = 0;
  for (const int socket : sockets) {
    std::array<uint32_t, SK_MEMINFO_VARS> held{};
    socklen_t length = sizeof held;
    if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, held.data(), &length) != 0) continue;
    bytes += size_t{held[SK_MEMINFO_RMEM_ALLOC]} + held[SK_MEMINFO_WMEM_QUEUED] +
             held[SK_MEMINFO_FWD_ALLOC] + held[SK_MEMINFO_BACKLOG];
  }
  return bytes;
}

size_t unconfirmed(int socket) noexcept {
  int sent = 0;
  if (::ioctl(socket, SIOCOUTQ, &sent) != 0 || sent <= 1) return 0;
  tcp_info info{};
  socklen_t length = sizeof info;
  // One that was reset keeps its numbers, and nothing else.
  const bool known = ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) == 0;
  return known && info.tcpi_state != TCP_CLOSE ? static_cast<size_t>(sent) : 0;
}

void reset_connection(sys::Fd socket) noexcept {
  const linger at_once{1, 0};
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
}

}
