#pragma once
// A TCP connection to a port of the sandbox's own loopback, as a stream.
//
// The conversation: Request{tcp}; Event connected; then Data and Eof both ways: Eof ends one
// direction (shutdown(2), SHUT_WR), the other goes on. End ok when both have ended; End error when
// the connection could not be made or was reset. Cancel resets it.

#include <cstdint>
#include <optional>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr std::string_view kTcpVerb = "tcp";
inline constexpr std::string_view kConnectedEvent = "connected";
struct TcpRequest {
  uint16_t port = 0;  // never 0; on 127.0.0.1, else on ::1
  bool operator==(const TcpRequest&) const = default;

  Bytes encode() const;
  static std::optional<TcpRequest> decode(ByteView payload) noexcept;
};
Bytes encode_event(std::string_view name);  // an Event that is its name alone

}
