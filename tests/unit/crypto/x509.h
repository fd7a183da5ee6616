#pragma once
// Certificates as a client sees them, read and verified by OpenSSL itself.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace mvm::crypto {

struct FreeX509 {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeX509>;

inline std::vector<Certificate> read_certificates(std::string_view pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  std::vector<Certificate> out;
  while (X509* one = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) out.emplace_back(one);
  BIO_free(bio);
  return out;
}
inline Certificate read_certificate(std::string_view pem) {
  return std::move(read_certificates(pem).at(0));
}

// "ok" or OpenSSL's words for what is wrong, judged as strictly as Python 3.13 does.
inline std::string verify(std::string_view root, std::string_view chain, const std::string& host,
                          time_t at) {
  const Certificate anchor = read_certificate(root);
  const std::vector<Certificate> sent = read_certificates(chain);
  STACK_OF(X509)* others = sk_X509_new_null();
  for (size_t index = 1; index < sent.size(); ++index) sk_X509_push(others, sent[index].get());
  X509_STORE* store = X509_STORE_new();
  X509_STORE_add_cert(store, anchor.get());
  X509_STORE_CTX* context = X509_STORE_CTX_new();
  X509_STORE_CTX_init(context, store, sent.at(0).get(), others);
  X509_VERIFY_PARAM* wanted = X509_STORE_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_flags(wanted, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set_purpose(wanted, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set_time(wanted, at);
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1)
    X509_VERIFY_PARAM_set1_host(wanted, host.data(), host.size());
  X509_verify_cert(context);
  const std::string verdict = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  sk_X509_free(others);
  return verdict;
}

}
