#pragma once
// SHA-1 (RFC 3174), for the WebSocket handshake, which uses it as a checksum and not as a secret.
// Here because OpenSSL is the crypto module's, which is above this one.

#include <array>
#include <cstddef>

#include "mvm/base/bytes.h"

namespace mvm::http {

std::array<uint8_t, 20> sha1(ByteView data);

}
