#include "mvm/crypto/library.h"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "mvm/base/text.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/hash.h"

namespace mvm::crypto {
namespace {

const char* what_is_wrong() {
  use_digests_and_signatures_alone();
  if (digest_hex(sha256(as_bytes("abc"))) !=
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    return "a digest is wrong";
  const SigningKey key = SigningKey::generate();
  const SigningKey same(key.seed());
  const Signature signature = same.sign(as_bytes("said"));
  if (!verify(key.public_key(), as_bytes("said"), signature)) return "a signature is refused";
  if (verify(key.public_key(), as_bytes("not said"), signature)) return "a forgery is taken";
  if (::EVP_get_digestbyname("SHA256") != nullptr) return "the names are there all the same";
  return nullptr;
}

// In a process of its own: the choice is for good.
TEST(CryptoLibrary, DigestsAndSignaturesNeedNoNames) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const char* wrong = what_is_wrong();
        std::fprintf(stderr, "%s\n", wrong == nullptr ? "all well" : wrong);
        std::exit(wrong == nullptr ? 0 : 1);
      },
      testing::ExitedWithCode(0), "all well");
}

}
}
