#pragma once
// Randomness from the kernel, for ids and keys.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace mvm::crypto {

// getrandom(2); blocks only before the host's generator is seeded. Throws SystemError.
void random_bytes(std::span<std::byte> out);

// `prefix` and then `length` random characters of lowercase base32 (RFC 4648: a-z 2-7), 5 bits
// each: random_id("sb-", 12) is a sandbox id.
std::string random_id(std::string_view prefix, size_t length = 12);

}
