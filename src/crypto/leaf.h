#pragma once

#include <chrono>
#include <string>

#include "mvm/crypto/authority.h"

#include "openssl.h"

namespace mvm::crypto {

class Leaf {
 public:
  Leaf(std::string for_host, CertificatePtr own, CertificatePtr by, KeyPtr with)
      : host(std::move(for_host)),
        certificate(std::move(own)),
        intermediate(std::move(by)),
        key(std::move(with)) {}

  std::string host;
  CertificatePtr certificate;
  CertificatePtr intermediate;
  KeyPtr key;
};

}
