#pragma once
// Leaving HTTP/1.1 on a connection: recognising the WebSocket handshake and checking the answer to
// it. RFC 6455 §4, RFC 9110 §7.8. After a valid 101 the bytes of both directions are not HTTP.

#include <string>
#include <string_view>

#include "mvm/http/message.h"

namespace mvm::http {

enum class Upgrade {
  None,       // no Upgrade field, or none that "Connection: upgrade" makes effective: plain HTTP
  WebSocket,  // a whole and valid handshake
  Malformed,  // asks for websocket, but is not a valid handshake: answer 400
  Other,      // asks for something else, such as h2c: forward without the field, or refuse
};
Upgrade requested_upgrade(const RequestHead& head) noexcept;

// Whether `head` (status 101) completes the handshake that `request` began: the right
// Sec-WebSocket-Accept, and no subprotocol or extension that was not asked for.
bool accepts_websocket(const RequestHead& request, const ResponseHead& head);

// The value of Sec-WebSocket-Accept for a key.
std::string websocket_accept(std::string_view key);

}
