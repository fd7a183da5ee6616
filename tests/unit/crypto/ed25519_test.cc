#include "mvm/crypto/ed25519.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/text.h"

namespace mvm::crypto {
namespace {

// RFC 8032 §7.1, test 2.
constexpr std::array<uint8_t, 32> kSeed{
    0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11, 0x4e, 0x0f,
    0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb};
constexpr std::string_view kPublic =
    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
constexpr std::string_view kSignature =
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

SigningKey key() { return SigningKey(std::as_bytes(std::span(kSeed))); }

TEST(Ed25519, AgreesWithTheStandardsVector) {
  EXPECT_EQ(hex(key().public_key()), kPublic);
  EXPECT_EQ(hex(key().sign(as_bytes("r"))), kSignature);
}

TEST(Ed25519, HoldsForThatMessageAndKeyAlone) {
  const Signature signature = key().sign(as_bytes("r"));
  EXPECT_TRUE(verify(key().public_key(), as_bytes("r"), signature));
  EXPECT_FALSE(verify(key().public_key(), as_bytes("s"), signature));
  EXPECT_FALSE(verify(SigningKey::generate().public_key(), as_bytes("r"), signature));
  Signature changed = signature;
  changed[40] ^= std::byte{1};
  EXPECT_FALSE(verify(key().public_key(), as_bytes("r"), changed));
}

TEST(Ed25519, HandsItsSeedOn) {
  const SigningKey made = SigningKey::generate();
  EXPECT_EQ(SigningKey(made.seed()).public_key(), made.public_key());
}

TEST(Ed25519, WritesAndReadsPem) {
  const std::string pem = public_key_pem(key().public_key());
  EXPECT_THAT(pem, testing::StartsWith("-----BEGIN PUBLIC KEY-----\n"));
  EXPECT_EQ(public_key_from_pem(pem), key().public_key());
  EXPECT_FALSE(public_key_from_pem("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"));
  EXPECT_FALSE(public_key_from_pem(""));
}

}
}
