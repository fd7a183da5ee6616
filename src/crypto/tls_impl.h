#pragma once
// What the files behind tls.h share.

#include <list>
#include <map>
#include <optional>
#include <string>

#include "mvm/crypto/tls.h"

#include "leaf.h"
#include "openssl.h"
#include "trust_impl.h"

namespace mvm::crypto {

// Settings of both sides: versions, ciphers, no compression, no renegotiation.
SslContextPtr make_context(const SSL_METHOD* method);
// A memory BIO over an engine's input and output; app data: the engine's Impl.
BIO* make_engine_bio(TlsEngine::Impl* engine);
TlsEngine::Impl* engine_of(const SSL* ssl) noexcept;

// The newest sessions of upstream servers, by whom they are with.
class SessionCache {
 public:
  void put(const std::string& key, SessionPtr session);
  // Taken out when it may be used only once (RFC 8446 §C.4).
  SessionPtr take(const std::string& key);

 private:
  struct Entry {
    std::string key;
    SessionPtr session;
  };
  std::list<Entry> entries_;  // newest first
  std::map<std::string, std::list<Entry>::iterator, std::less<>> by_key_;
};

struct TlsServerContext::Impl {
  SslContextPtr context;
};
struct TlsClientContext::Impl {
  SslContextPtr context;
  std::shared_ptr<const TrustStore> trust;
  SessionCache sessions;
};

// What the verification of a server found wrong first.
TlsFailure verification_failure(X509_STORE_CTX* context, const std::string& host);
// What ended a handshake or a connection, from OpenSSL's queue of errors, which is emptied.
TlsFailure take_library_failure();

struct TlsEngine::Impl {
  explicit Impl(TlsServerContext& context);
  Impl(TlsClientContext& context, const TlsPeer& peer);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void handshake();
  size_t read_open(std::span<std::byte> plain);
  void write_open(ByteView& plain);
  void close();
  void fail(TlsFailure why);
  // After an SSL call that did not succeed; true when it merely waits.
  bool waits(int result);
  size_t waiting() const noexcept { return output.size() - output_start; }

  // Of the server's ClientHello callback.
  int on_client_hello(int* alert);
  bool read_hello();

  SslPtr ssl;
  TlsPhase phase = TlsPhase::Handshake;
  TlsFailure failure;
  std::optional<TlsFailure> cause;  // found by a callback; OpenSSL will only know that it failed
  bool asked_for_certificate = false;
  bool close_sent = false;
  bool peer_closed = false;

  ByteView input;  // what read() was given; empty outside of it
  std::vector<std::byte> output;
  size_t output_start = 0;

  // server
  TlsHello hello;
  bool hello_seen = false;
  std::shared_ptr<const Leaf> leaf;  // set: decided
  std::string chosen_protocol;
  std::optional<TlsAlert> refusal;

  // client
  TlsClientContext::Impl* client = nullptr;
  std::string host;
  std::string session_key;
};

}
