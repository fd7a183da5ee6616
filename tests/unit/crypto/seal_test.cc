#include "mvm/crypto/seal.h"

#include <gtest/gtest.h>

#include "mvm/base/text.h"

namespace mvm::crypto {
namespace {

using Key = std::array<std::byte, kSealKey>;

Key key(unsigned char fill) {
  Key out;
  out.fill(static_cast<std::byte>(fill));
  return out;
}

TEST(Seal, IsOpenedByItsKeyAlone) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16}, size_t{100'000}}) {
    const std::string text(size, 'x');
    const Bytes sealed = seal(key(1), "test", as_bytes(text));
    EXPECT_EQ(sealed.size(), size + kSealOverhead);
    const auto plain = unseal(key(1), "test", sealed);
    ASSERT_TRUE(plain);
    EXPECT_EQ(as_text(*plain), text);
    EXPECT_FALSE(unseal(key(2), "test", sealed));
    EXPECT_FALSE(unseal(key(1), "other", sealed));
  }
}

TEST(Seal, NoBitOfItCanBeChanged) {
  const Bytes sealed = seal(key(1), "test", as_bytes("0123456789"));
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    Bytes changed = sealed;
    changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(unseal(key(1), "test", changed)) << bit;
  }
  for (size_t size = 0; size < sealed.size(); ++size)
    EXPECT_FALSE(unseal(key(1), "test", ByteView(sealed).first(size))) << size;
}

TEST(Seal, IsAnotherEachTime) {
  EXPECT_NE(seal(key(1), "test", as_bytes("text")), seal(key(1), "test", as_bytes("text")));
}

// NIST's GCM test vectors (gcmEncryptExtIV256, Keylen 256, IVlen 96, PTlen 128, AADlen 128), which
// are what another program's sealing gives.
TEST(Seal, OpensWhatOthersHaveSealed) {
  const auto from_hex = [](std::string_view digits) {
    Bytes out;
    for (size_t i = 0; i < digits.size(); i += 2)
      out.push_back(
          static_cast<std::byte>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
    return out;
  };
  const Bytes key_bytes =
      from_hex("92e11dcdaa866f5ce790fd24501f92509aacf4cb8b1339d50c9c1240935dd08b");
  const Bytes aad = from_hex("1e0889016f67601c8ebea4943bc23ad6");
  const Bytes sealed = from_hex(
      "ac93a1a6145299bde902f21a"
      "8995ae2e6df3dbf96fac7b7137bae67f"
      "eca5aa77d51d4a0a14d9c51e1da474ab");
  const auto plain = unseal(std::span<const std::byte, kSealKey>(key_bytes), as_text(aad), sealed);
  ASSERT_TRUE(plain);
  EXPECT_EQ(hex(*plain), "2d71bcfa914e4ac045b2aa60955fad24");
}

}
}
