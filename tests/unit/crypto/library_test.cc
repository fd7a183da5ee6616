#include "mvm/crypto/library.h"

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/hash.h"
#include "mvm/sys/file.h"

namespace mvm::crypto {

// A configuration under which there is no SHA-256 to be had.
static int hash_under(const std::string& config, bool start) {
  ::setenv("OPENSSL_CONF", config.c_str(), 1);
  try {
    if (start) start_library();
    sha256(as_bytes("abc"));
    return 0;
  } catch (const Error&) {
    return 1;
  }
}

TEST(Library, IsNotLedByTheHostsConfiguration) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // each in a process that has not used it yet
  const sys::TempDir folder;
  const std::string config = folder.path() + "/openssl.cnf";
  sys::write_file_atomic(config, as_bytes("openssl_conf = start\n"
                                          "[start]\nalg_section = algorithms\n"
                                          "[algorithms]\ndefault_properties = nobody=has\n"));
  EXPECT_EXIT(std::_Exit(hash_under(config, false)), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(std::_Exit(hash_under(config, true)), testing::ExitedWithCode(0), "");
}

static const char* what_is_wrong_without_names() {
  start_library();
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

TEST(Library, DigestsAndSignaturesNeedNoNames) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const char* wrong = what_is_wrong_without_names();
        std::fprintf(stderr, "%s\n", wrong == nullptr ? "all well" : wrong);
        std::_Exit(wrong == nullptr ? 0 : 1);
      },
      testing::ExitedWithCode(0), "all well");
}

}
