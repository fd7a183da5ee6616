#pragma once
// Reads a client's first bytes and leaves them where they are, so that whoever takes the connection
// on finds all of it.

#include <optional>

#include "mvm/egress/client_hello.h"
#include "mvm/http/target.h"

namespace mvm::egress {

// Hello and the records around it. A client that sends more of it is cut off.
inline constexpr size_t kMaxPeeked = 2 * kMaxHello;

enum class FirstBytes : uint8_t {
  None,  // nothing yet, or not enough: the socket becomes readable when there is more, and stays so
         // when there never will be (EPOLLRDHUP)
  Closed,   // nothing, and nothing will come
  Failed,   // the connection is lost
  Tls,      // a whole ClientHello
  Broken,   // begins like TLS, and is none that two readers would read alike
  Connect,  // the head of a request to an HTTP proxy, for a tunnel
  Other,
};
struct Peeked {
  FirstBytes what = FirstBytes::None;
  ClientHello hello;                  // of Tls
  std::optional<http::Authority> to;  // of Connect, where it says
  size_t length = 0;                  // and how much of it there is
};

Peeked peek_first_bytes(int socket);
// The socket counts as readable when so many bytes have come, or the last ones.
void wake_at(int socket, size_t bytes);
// At the first byte again, whatever the last look wanted.
void wake_at_once(int socket);

}
