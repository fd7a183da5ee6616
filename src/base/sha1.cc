#include "mvm/base/sha1.h"

#include <bit>

namespace mvm {

static void add_block(std::array<uint32_t, 5>& state, ByteView block) {
  std::array<uint32_t, 80> words{};
  Reader in(block);
  for (size_t at = 0; at < 16; ++at) words[at] = in.u32be();
  for (size_t at = 16; at < 80; ++at)
    words[at] = std::rotl(words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16], 1);
  auto [a, b, c, d, e] = state;
  for (size_t at = 0; at < 80; ++at) {
    const uint32_t mixed = at < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                           : at < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                           : at < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                     : (b ^ c ^ d) + 0xca62c1d6;
    const uint32_t next = std::rotl(a, 5) + mixed + e + words[at];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
}

std::array<uint8_t, 20> sha1(ByteView data) {
  Bytes padded(data.begin(), data.end());
  Writer end(padded);
  end.u8(0x80);
  while (padded.size() % 64 != 56) end.u8(0);
  end.u64be(uint64_t{data.size()} * 8);
  std::array<uint32_t, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  for (size_t at = 0; at < padded.size(); at += 64)
    add_block(state, ByteView(padded).subspan(at, 64));
  std::array<uint8_t, 20> out{};
  for (size_t at = 0; at < out.size(); ++at)
    out[at] = static_cast<uint8_t>(state[at / 4] >> (24 - 8 * (at % 4)));
  return out;
}

}
