// Why TLS did not work, in words for people and for records.

#include <array>
#include <utility>

#include "mvm/base/text.h"

#include "tls_impl.h"

namespace mvm::crypto {

// RFC 8446 §6.2, RFC 5246 §7.2, RFC 7301 §3.2, RFC 6066 §9.
static constexpr std::array<std::pair<uint8_t, std::string_view>, 32> kAlerts{{
    {0, "close_notify"},
    {10, "unexpected_message"},
    {20, "bad_record_mac"},
    {22, "record_overflow"},
    {40, "handshake_failure"},
    {42, "bad_certificate"},
    {43, "unsupported_certificate"},
    {44, "certificate_revoked"},
    {45, "certificate_expired"},
    {46, "certificate_unknown"},
    {47, "illegal_parameter"},
    {48, "unknown_ca"},
    {49, "access_denied"},
    {50, "decode_error"},
    {51, "decrypt_error"},
    {70, "protocol_version"},
    {71, "insufficient_security"},
    {80, "internal_error"},
    {86, "inappropriate_fallback"},
    {90, "user_canceled"},
    {100, "no_renegotiation"},
    {109, "missing_extension"},
    {110, "unsupported_extension"},
    {111, "certificate_unobtainable"},
    {112, "unrecognized_name"},
    {113, "bad_certificate_status_response"},
    {114, "bad_certificate_hash_value"},
    {115, "unknown_psk_identity"},
    {116, "certificate_required"},
    {120, "no_application_protocol"},
    {121, "ech_required"},
    {30, "decompression_failure"},
}};

std::string_view alert_name(uint8_t alert) noexcept {
  for (const auto& [number, name] : kAlerts)
    if (number == alert) return name;
  return {};
}

std::array<std::byte, 7> alert_record(TlsAlert alert) noexcept {
  // Content type alert, record version TLS 1.2, two bytes: fatal, which one.
  return {std::byte{21},
          std::byte{3},
          std::byte{3},
          std::byte{0},
          std::byte{2},
          std::byte{2},
          std::byte{static_cast<uint8_t>(alert)}};
}

std::string_view fault_name(TlsFault fault) noexcept {
  switch (fault) {
    case TlsFault::None:
      return "none";
    case TlsFault::Protocol:
      return "protocol";
    case TlsFault::Alert:
      return "alert";
    case TlsFault::NoCommonVersion:
      return "no_common_version";
    case TlsFault::NoCommonProtocol:
      return "no_common_protocol";
    case TlsFault::Refused:
      return "refused";
    case TlsFault::Expired:
      return "expired";
    case TlsFault::NotYetValid:
      return "not_yet_valid";
    case TlsFault::SelfSigned:
      return "self_signed";
    case TlsFault::UnknownAuthority:
      return "unknown_authority";
    case TlsFault::WrongHost:
      return "wrong_host";
    case TlsFault::Revoked:
      return "revoked";
    case TlsFault::BadCertificate:
      return "bad_certificate";
    case TlsFault::Truncated:
      return "truncated";
  }
  return {};
}

// ---- verification ---------------------------------------------------------------------------

static std::string date(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return "an unreadable date";
  std::array<char, 16> text{};
  return {text.data(), strftime(text.data(), text.size(), "%Y-%m-%d", &fields)};
}

// The last part of a distinguished name, which for authorities says the most.
static std::string short_name(const X509_NAME* name) {
  std::array<char, 256> text{};
  const int length = X509_NAME_get_text_by_NID(name, NID_commonName, text.data(), text.size());
  if (length > 0) return printable({text.data(), static_cast<size_t>(length)}, 80);
  X509_NAME_oneline(name, text.data(), static_cast<int>(text.size()));
  return printable(text.data(), 80);
}

static std::string text_of(const GENERAL_NAME* name) {
  if (name->type == GEN_DNS)
    return printable(
        as_text(std::as_bytes(std::span(ASN1_STRING_get0_data(name->d.dNSName),
                                        static_cast<size_t>(ASN1_STRING_length(name->d.dNSName))))),
        80);
  if (name->type != GEN_IPADD) return {};
  const std::span bytes(ASN1_STRING_get0_data(name->d.iPAddress),
                        static_cast<size_t>(ASN1_STRING_length(name->d.iPAddress)));
  const auto address = [&]<typename T>(T raw) {
    std::copy(bytes.begin(), bytes.end(), raw.begin());
    return IpAddress(raw).text();
  };
  if (bytes.size() == 4) return address(IpAddress::V4{});
  if (bytes.size() == 16) return address(IpAddress::V6{});
  return {};
}

// "a.example, b.example and 3 more".
static std::string names_of(X509* certificate) {
  static constexpr size_t kShown = 3;
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::string out;
  size_t count = 0;
  for (int at = 0; names && at < sk_GENERAL_NAME_num(names.get()); ++at) {
    const std::string text = text_of(sk_GENERAL_NAME_value(names.get(), at));
    if (text.empty()) continue;
    if (++count <= kShown) out += (out.empty() ? "" : ", ") + text;
  }
  if (count == 0) return "no host at all";
  if (count > kShown) out += " and " + std::to_string(count - kShown) + " more";
  return out;
}

TlsFailure verification_failure(X509_STORE_CTX* context, const std::string& host) {
  X509* const certificate = X509_STORE_CTX_get_current_cert(context);
  const std::string whose = X509_STORE_CTX_get_error_depth(context) == 0
                                ? "its certificate"
                                : "a certificate in its chain";
  const int error = X509_STORE_CTX_get_error(context);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {TlsFault::Expired, 0, whose + " expired on " + date(X509_get0_notAfter(certificate))};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {TlsFault::NotYetValid, 0,
              whose + " is not valid before " + date(X509_get0_notBefore(certificate))};
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return {TlsFault::SelfSigned, 0, "its certificate is self-signed"};
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return {TlsFault::UnknownAuthority, 0,
              "its certificate's authority is not trusted: " +
                  short_name(X509_get_subject_name(certificate))};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return {TlsFault::UnknownAuthority, 0,
              "its certificate's authority is not known, or is missing in what it sent: " +
                  short_name(X509_get_issuer_name(certificate))};
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return {TlsFault::WrongHost, 0,
              "its certificate is for " + names_of(certificate) + ", not for " + printable(host)};
    case X509_V_ERR_CERT_REVOKED:
      return {TlsFault::Revoked, 0, whose + " has been revoked"};
    default:
      return {TlsFault::BadCertificate, 0,
              whose + " is not acceptable: " + X509_verify_cert_error_string(error)};
  }
}

// ---- the library ----------------------------------------------------------------------------

TlsFailure take_library_failure() {
  const unsigned long error = ERR_peek_error();
  const char* text = ERR_reason_error_string(error);
  const int reason = ERR_GET_REASON(error);
  ERR_clear_error();
  if (ERR_GET_LIB(error) != ERR_LIB_SSL)
    return {TlsFault::Protocol, 0,
            text == nullptr ? "TLS failed" : "TLS failed: " + std::string(text)};
  if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
    const auto alert = static_cast<uint8_t>(reason - SSL_AD_REASON_OFFSET);
    std::string name(alert_name(alert));
    if (name.empty()) name = std::to_string(alert);
    return {TlsFault::Alert, alert, "the peer ended TLS with the alert " + name};
  }
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return {TlsFault::Protocol, 0, "the peer does not speak TLS"};
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
      return {TlsFault::NoCommonVersion, 0, "the peer speaks no TLS newer than 1.1"};
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_GROUPS:
      return {TlsFault::NoCommonVersion, 0,
              "the peer shares no cipher, curve or signature with us"};
    case SSL_R_NO_APPLICATION_PROTOCOL:
      return {TlsFault::NoCommonProtocol, 0,
              "the peer does not offer the protocol that was chosen"};
    default:
      return {
          TlsFault::Protocol, 0,
          "the peer broke the TLS protocol: " + std::string(text == nullptr ? "unknown" : text)};
  }
}

SslContextPtr make_context(const SSL_METHOD* method) {
  // What the host's openssl.cnf says about other programs is not for this one, which may not be
  // able to open it either.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  SslContextPtr made(need_object(SSL_CTX_new(method), "starting TLS"));
  SSL_CTX* const context = made.get();
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(context, SSL_OP_LEGACY_SERVER_CONNECT);
  SSL_CTX_set_security_level(context, 2);
  // Buffers of 17 KiB each way are given back while a connection is idle.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // AES-128 before 256: a third faster, and out of reach all the same.
  need(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(context,
                                    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                    "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL:!SHA1") ==
               1 &&
           SSL_CTX_set1_groups_list(context, "X25519:P-256:P-384:P-521") == 1,
       "starting TLS");
  return made;
}

}
