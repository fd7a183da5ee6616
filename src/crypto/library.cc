#include "mvm/crypto/library.h"

#include <openssl/crypto.h>

#include "mvm/base/error.h"

namespace mvm::crypto {

void start_library() {
  if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ADD_ALL_CIPHERS, nullptr) !=
      1)
    throw Error(Kind::Internal, "the crypto library does not start");
}

void use_digests_and_signatures_alone() noexcept {
  // Each of these steps is done once a process or, as here, marked as not to be done.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS,
                      nullptr);
}

}
