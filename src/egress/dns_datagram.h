#pragma once
// A datagram with both its addresses, and an answer that comes from where the question went.

#include <array>
#include <optional>

#include <netinet/in.h>

#include "mvm/base/bytes.h"

namespace mvm::egress {

struct WayBack {
  sockaddr_in6 client{};
  in6_addr asked{};  // whatever resolver the guest addressed
};
struct Datagram {
  WayBack back;
  std::array<std::byte, 1500> data;  // a query has one name; what is longer is none
  size_t length = 0;
  ByteView message() const noexcept { return ByteView(data).first(length); }
};

// The next one; nothing when there is none. Those without a known destination are passed over.
std::optional<Datagram> receive_datagram(int socket);
// UDP promises nothing: an answer that cannot be sent is one that is lost.
void send_datagram(int socket, const WayBack& back, ByteView message) noexcept;

}
