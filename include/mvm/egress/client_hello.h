#pragma once
// The first message of a TLS connection (RFC 8446 §4.1.2, which TLS 1.2 reads alike): whom the
// client wants to talk to. Read before a byte is sent on, and not answered here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/dns/name.h"

namespace mvm::egress {

// With post-quantum key shares a hello has two kilobytes. A peer that sends more than this in its
// hello is not worth waiting for.
inline constexpr size_t kMaxHello = 16 * 1024;

struct ClientHello {
  std::optional<dns::Name> server_name;  // RFC 6066 §3; nothing when the client sent none
  std::vector<std::string> protocols;    // ALPN (RFC 7301), in the client's order
};

enum class HelloState : uint8_t {
  More,    // what is there so far is a beginning
  NotTls,  // something else
  Broken,  // TLS, but no hello that two readers would read alike
  Whole,
};
struct HelloResult {
  HelloState state = HelloState::More;
  ClientHello hello;  // when Whole
};

// Looks at all that has come so far.
HelloResult read_client_hello(ByteView data);

}
