#pragma once
// Bytes that only the holder of a key can read or change: AES-256 in GCM (NIST SP 800-38D), with a
// random nonce of 96 bits in front. One key is good for 2^32 of them.

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::crypto {

inline constexpr size_t kSealKey = 32;
inline constexpr size_t kSealOverhead = 12 + 16;  // nonce and tag

// `purpose` is not in the result, and unseal() has to be told the same.
Bytes seal(std::span<const std::byte, kSealKey> key, std::string_view purpose, ByteView plain);
// Nothing: another key or purpose, or not a byte of it is as it was.
std::optional<Bytes> unseal(std::span<const std::byte, kSealKey> key, std::string_view purpose,
                            ByteView sealed);

}
