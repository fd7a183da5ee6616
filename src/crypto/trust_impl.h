#pragma once

#include "mvm/crypto/trust.h"

#include "openssl.h"

namespace mvm::crypto {

struct TrustStore::Impl {
  StorePtr store;
  size_t certificates = 0;
  uint64_t id = 0;  // no other store of this process has it
};

}
