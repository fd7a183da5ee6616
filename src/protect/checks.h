#pragma once
// Check digits and checksums. Digits are given as text of '0' to '9' alone.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mvm::protect {

bool luhn(std::string_view digits) noexcept;            // ISO/IEC 7812-1 annex B
bool verhoeff(std::string_view digits) noexcept;        // Aadhaar
bool mod97_is_1(std::string_view rearranged) noexcept;  // ISO 7064 MOD 97-10, A=10..Z=35
bool mod11_10(std::string_view digits) noexcept;        // ISO 7064 MOD 11,10
int weighted_sum(std::string_view digits, std::span<const int8_t> weights) noexcept;
uint64_t number(std::string_view digits) noexcept;  // at most 18 digits
bool all_same(std::string_view text) noexcept;
// Whether the digits only count up or down ("123456789").
bool is_sequence(std::string_view digits) noexcept;
bool valid_date(unsigned year, unsigned month, unsigned day) noexcept;
// Of two or three digits at `at`.
unsigned part(std::string_view digits, size_t at, size_t length) noexcept;

// Of the alphabet of Bitcoin; nothing when a character is not in it or the value exceeds 64 bytes.
bool base58_decode(std::string_view text, std::string& out);
bool base58check(std::string_view text, std::string& payload);  // payload with its version byte
enum class Bech32 : uint8_t { None, Bech32, Bech32m };
Bech32 bech32(std::string_view text) noexcept;  // BIP 173, BIP 350; lowercase
bool eip55(std::string_view forty_hex);         // mixed case as EIP-55 says
uint32_t crc32(std::string_view bytes) noexcept;

}
