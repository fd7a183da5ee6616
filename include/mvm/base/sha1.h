#pragma once
// SHA-1 (RFC 3174), for the WebSocket handshake and for Java's stores of certificates, which use it
// as a checksum and not as a secret. Here because OpenSSL is the crypto module's, which is above
// those.

#include <array>
#include <cstddef>

#include "mvm/base/bytes.h"

namespace mvm {

std::array<uint8_t, 20> sha1(ByteView data);

}
