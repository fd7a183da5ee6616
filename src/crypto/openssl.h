#pragma once
// OpenSSL objects that own themselves, and its failures as ours. Only for files of this module.

#include <memory>
#include <string>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "mvm/base/error.h"

namespace mvm::crypto {

template <auto free_function>
struct Freed {
  template <typename T>
  void operator()(T* object) const noexcept {
    free_function(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free>>;
using BignumPtr = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using GeneralNamePtr = std::unique_ptr<GENERAL_NAME, Freed<GENERAL_NAME_free>>;
using GeneralNamesPtr = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using NameConstraintsPtr = std::unique_ptr<NAME_CONSTRAINTS, Freed<NAME_CONSTRAINTS_free>>;
using SessionPtr = std::unique_ptr<SSL_SESSION, Freed<SSL_SESSION_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Freed<SSL_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;

// For calls that fail only without memory or by a bug of ours, never for what a peer sent.
inline void need(bool worked, std::string_view doing) {
  if (worked) return;
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  const std::string text = reason == nullptr ? "the library refused" : reason;
  ERR_clear_error();
  throw Error(Kind::Internal, std::string(doing) + ": " + text);
}
template <typename T>
T* need_object(T* object, std::string_view doing) {
  need(object != nullptr, doing);
  return object;
}

}
