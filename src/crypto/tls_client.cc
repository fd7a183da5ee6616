// The side towards upstream servers: verification, which nothing here can switch off, and sessions.

#include "mvm/base/ip.h"

#include "tls_impl.h"

namespace mvm::crypto {

// ---- sessions -------------------------------------------------------------------------------

void SessionCache::put(const std::string& key, SessionPtr session) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    entries_.erase(known->second);
    by_key_.erase(known);
  }
  if (entries_.size() == kCachedSessions) {
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({key, std::move(session)});
  by_key_.emplace(key, entries_.begin());
}

SessionPtr SessionCache::take(const std::string& key) {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return nullptr;
  SSL_SESSION* const session = known->second->session.get();
  if (SSL_SESSION_get_protocol_version(session) < TLS1_3_VERSION) {
    SSL_SESSION_up_ref(session);
    return SessionPtr(session);
  }
  SessionPtr out = std::move(known->second->session);
  entries_.erase(known->second);
  by_key_.erase(known);
  return out;
}

static int session_callback(SSL* ssl, SSL_SESSION* session) {
  const TlsEngine::Impl& engine = *engine_of(ssl);
  engine.client->sessions.put(engine.session_key, SessionPtr(session));
  return 1;  // it is ours now
}

// Of a server that wants to know its client: we have nothing to show.
static int client_certificate_callback(SSL* ssl, X509** /*certificate*/, EVP_PKEY** /*key*/) {
  engine_of(ssl)->asked_for_certificate = true;
  return 0;
}

// ---- verification ---------------------------------------------------------------------------

static int verify_callback(int good, X509_STORE_CTX* context) {
  if (good == 1) return 1;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
  TlsEngine::Impl& engine = *engine_of(ssl);
  engine.cause = verification_failure(context, engine.host);
  return 0;
}

static void set_expected_host(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  // Names are those of the extension, never the common name; a wildcard is a whole label.
  X509_VERIFY_PARAM_set_hostflags(
      wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (const auto address = IpAddress::parse(host)) {
    const auto bytes = address->bytes();
    need(X509_VERIFY_PARAM_set1_ip(wanted, bytes.data(), bytes.size()) == 1, "starting TLS");
    return;
  }
  // An embedded zero byte would shorten the name for OpenSSL, and an empty one check nothing.
  if (host.empty() || host.find('\0') != std::string::npos)
    throw Error(Kind::Invalid, "starting TLS: the server has no valid name");
  need(X509_VERIFY_PARAM_set1_host(wanted, host.data(), host.size()) == 1 &&
           // The macro for it has a cast of the old style.
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    const_cast<char*>(host.c_str())) == 1,
       "starting TLS");
}

static std::string wire_protocols(const std::vector<std::string>& protocols) {
  std::string out;
  for (const std::string& name : protocols) {
    MVM_ASSERT(!name.empty() && name.size() < 256);
    out += static_cast<char>(name.size());
    out += name;
  }
  return out;
}

TlsClientContext::TlsClientContext(std::shared_ptr<const TrustStore> trust)
    : impl_(std::make_unique<Impl>()) {
  impl_->context = make_context(TLS_client_method());
  impl_->trust = std::move(trust);
  SSL_CTX* const context = impl_->context.get();
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, verify_callback);
  SSL_CTX_set1_cert_store(context, impl_->trust->impl().store.get());
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, session_callback);
  SSL_CTX_set_client_cert_cb(context, client_certificate_callback);
}
TlsClientContext::~TlsClientContext() = default;

TlsEngine::Impl::Impl(TlsClientContext& context, const TlsPeer& peer)
    : ssl(need_object(SSL_new(context.impl().context.get()), "starting TLS")),
      client(&context.impl()),
      host(peer.host) {
  const TrustStore& trust = peer.trust ? *peer.trust : *client->trust;
  SSL_set_app_data(ssl.get(), this);
  BIO* const bio = make_engine_bio(this);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_connect_state(ssl.get());
  set_expected_host(ssl.get(), host);
  if (peer.trust)
    need(SSL_set1_verify_cert_store(ssl.get(), trust.impl().store.get()) == 1, "starting TLS");
  const std::string protocols = wire_protocols(peer.protocols);
  if (!protocols.empty()) {
    // unsigned char may alias anything.
    const auto* bytes = reinterpret_cast<const unsigned char*>(protocols.data());
    need(SSL_set_alpn_protos(ssl.get(), bytes, static_cast<unsigned>(protocols.size())) == 0,
         "starting TLS");
  }
  // A resumed session is not verified again, so it must have been under the same conditions.
  session_key = host + '\0' + std::to_string(peer.port) + '\0' + std::to_string(trust.impl().id) +
                '\0' + protocols;
  if (const SessionPtr session = client->sessions.take(session_key))
    need(SSL_set_session(ssl.get(), session.get()) == 1, "starting TLS");
  handshake();
}

}
