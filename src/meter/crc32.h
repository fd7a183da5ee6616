#pragma once
// The checksum of AWS's framing and of the journal: CRC-32 as in IEEE 802.3.

#include <array>
#include <cstdint>
#include <string_view>

namespace mvm::meter {

consteval std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320U : 0);
    table[i] = value;
  }
  return table;
}
inline constexpr auto kCrcTable = crc_table();

inline uint32_t crc32(uint32_t crc, std::string_view bytes) {
  crc = ~crc;
  for (const char c : bytes)
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}
