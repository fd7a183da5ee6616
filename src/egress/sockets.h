#pragma once
// Socket calls as the proxy uses them.

#include <optional>
#include <span>
#include <utility>

#include <netinet/in.h>
#include <sys/socket.h>

#include "mvm/egress/proxy.h"
#include "mvm/sys/fd.h"

namespace mvm::egress {

// An address of either family as the kernel takes it.
struct SocketAddress {
  explicit SocketAddress(const Endpoint& endpoint) noexcept;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr_storage storage{};
  socklen_t length = 0;
};
// Of an AF_INET6 socket; IPv4 comes as mapped addresses and leaves as IPv4.
Endpoint from_sockaddr(const sockaddr_in6& address) noexcept;

// Non-blocking. Nothing, and errno, when there is none to be had.
std::optional<sys::Fd> open_socket(const IpAddress& peer, int type) noexcept;
// What an accepted transparent socket calls itself: where the guest wanted to go.
std::optional<Endpoint> local_endpoint(int socket) noexcept;
int pending_error(int socket) noexcept;  // SO_ERROR, which clears it

// No delay for small writes, and probes that find a peer that is gone.
void prepare_stream(int socket) noexcept;
// What the kernel holds of a connection's bytes, both ways, with what its own structures take; of
// -1, nothing.
size_t memory_of(std::span<const int> sockets) noexcept;
// How much of what was sent the peer has not confirmed; the end that a shutdown says is no byte.
size_t unconfirmed(int socket) noexcept;
// Closed by a reset, not by a FIN.
void reset_connection(sys::Fd socket) noexcept;

}
