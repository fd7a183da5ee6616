// The side towards the guest: what its ClientHello says, the certificate it gets, its tickets.

#include "mvm/base/ip.h"
#include "mvm/crypto/hash.h"
#include "mvm/dns/name.h"

#include "tls_impl.h"

namespace mvm::crypto {

static int client_hello_callback(SSL* ssl, int* alert, void* /*argument*/) {
  return engine_of(ssl)->on_client_hello(alert);
}

static int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* length,
                           const unsigned char* offered, unsigned offered_length,
                           void* /*argument*/) {
  const std::string& wanted = engine_of(ssl)->chosen_protocol;
  if (wanted.empty()) return SSL_TLSEXT_ERR_NOACK;
  // OpenSSL has checked that the list is well formed.
  for (unsigned at = 0; at < offered_length; at += 1U + offered[at]) {
    const std::string_view one = as_text(std::as_bytes(std::span(offered + at + 1, offered[at])));
    if (one != wanted) continue;
    *chosen = offered + at + 1;
    *length = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

TlsServerContext::TlsServerContext() : impl_(std::make_unique<Impl>()) {
  impl_->context = make_context(TLS_server_method());
  SSL_CTX* const context = impl_->context.get();
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_client_hello_cb(context, client_hello_callback, nullptr);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  // Tickets only, under a key that this context makes for itself: nothing is kept for a client.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // Two would be sent by default; few clients use a second.
  need(SSL_CTX_set_num_tickets(context, 1) == 1, "starting TLS");
}
TlsServerContext::~TlsServerContext() = default;

TlsEngine::Impl::Impl(TlsServerContext& context)
    : ssl(need_object(SSL_new(context.impl().context.get()), "starting TLS")) {
  SSL_set_app_data(ssl.get(), this);
  BIO* const bio = make_engine_bio(this);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_accept_state(ssl.get());
}

static ByteView extension(SSL* ssl, unsigned type) {
  const unsigned char* data = nullptr;
  size_t length = 0;
  if (SSL_client_hello_get0_ext(ssl, type, &data, &length) != 1) return {};
  return std::as_bytes(std::span(data, length));
}

// RFC 6066 §3: a list of which one entry, of type 0, makes sense.
static std::optional<std::string> read_server_name(ByteView data) {
  if (data.empty()) return std::string();
  Reader in(data);
  Reader list(in.bytes(in.u16be()));
  const uint8_t type = list.u8();
  const std::string_view name = as_text(list.bytes(list.u16be()));
  if (!in || !list || in.remaining() != 0 || list.remaining() != 0 || type != 0)
    return std::nullopt;
  // Some clients put an address here, against the RFC; it says no more than having none.
  if (IpAddress::parse(name)) return std::string();
  const auto host = dns::Name::parse(name);
  if (!host || name == ".") return std::nullopt;
  return host->text();
}

// RFC 7301 §3.1. OpenSSL judges the list later; what cannot be read of it is left out here.
static std::vector<std::string> read_protocols(ByteView data) {
  std::vector<std::string> out;
  Reader in(data);
  Reader list(in.bytes(in.u16be()));
  while (list.remaining() > 0 && out.size() < kMaxAlpnProtocols) {
    const std::string_view name = as_text(list.bytes(list.u8()));
    if (name.empty()) break;
    out.emplace_back(name);
  }
  return out;
}

bool TlsEngine::Impl::read_hello() {
  auto name = read_server_name(extension(ssl.get(), TLSEXT_TYPE_server_name));
  if (!name) return false;
  hello.server_name = std::move(*name);
  hello.protocols =
      read_protocols(extension(ssl.get(), TLSEXT_TYPE_application_layer_protocol_negotiation));
  hello_seen = true;
  return true;
}

// Called for a ClientHello until something is decided, and once more for the one that follows a
// HelloRetryRequest; that may not say anything else (RFC 8446 §4.1.2), and is not asked.
int TlsEngine::Impl::on_client_hello(int* alert) {
  if (refusal) {
    *alert = static_cast<int>(*refusal);
    return SSL_CLIENT_HELLO_ERROR;
  }
  if (!hello_seen && !read_hello()) {
    cause = {TlsFault::Protocol, 0, "the server name in the ClientHello is malformed"};
    *alert = static_cast<int>(TlsAlert::UnrecognizedName);
    return SSL_CLIENT_HELLO_ERROR;
  }
  if (!leaf) return SSL_CLIENT_HELLO_RETRY;
  STACK_OF(X509)* const chain = need_object(sk_X509_new_null(), "starting TLS");
  sk_X509_push(chain, leaf->intermediate.get());
  const int used =
      SSL_use_cert_and_key(ssl.get(), leaf->certificate.get(), leaf->key.get(), chain, 1);
  sk_X509_free(chain);
  // A ticket is good for the host it was made for, so that no other's certificate is skipped by it.
  const Digest scope = sha256(as_bytes(leaf->host));
  // unsigned char may alias anything.
  const auto* bytes = reinterpret_cast<const unsigned char*>(scope.data());
  if (used == 1 && SSL_set_session_id_context(ssl.get(), bytes, scope.size()) == 1)
    return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_INTERNAL_ERROR;
  return SSL_CLIENT_HELLO_ERROR;
}

}
