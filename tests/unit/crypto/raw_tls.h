#pragma once
// A TLS peer that is OpenSSL without our engine around it, so that tests can make it do what the
// engine never would.

#include <memory>
#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "mvm/base/bytes.h"

namespace mvm::crypto {

class RawClient {
 public:
  RawClient() : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_);
  }
  ~RawClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  SSL* ssl() { return ssl_; }
  void server_name(const char* name) {
    SSL_ctrl(ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(name));
  }
  // Takes a step of the handshake, or reads; what has been read is kept in `plain`.
  void step() {
    char buffer[4096];
    int got = 0;
    while ((got = SSL_read(ssl_, buffer, sizeof buffer)) > 0)
      plain.append(buffer, static_cast<size_t>(got));
  }
  void give(ByteView bytes) {
    BIO_write(SSL_get_rbio(ssl_), bytes.data(), static_cast<int>(bytes.size()));
  }
  std::string take() {
    char* data = nullptr;
    const long length = BIO_get_mem_data(SSL_get_wbio(ssl_), &data);
    std::string out(data, static_cast<size_t>(length));
    (void)BIO_reset(SSL_get_wbio(ssl_));
    return out;
  }

  std::string plain;

 private:
  SSL_CTX* context_;
  SSL* ssl_;
};

}
