#pragma once
// TLS 1.2 and 1.3 from memory to memory: ciphertext in, plaintext out and the other way round. No
// descriptor, no clock, no thread; whoever owns the engine moves the bytes. RFC 8446, RFC 5246.
//
//   transport ── bytes ──> read(input, plain) ──> plaintext
//   plaintext ──> write(plain) ──> output() ── bytes ──> transport, then sent(n)
//
// After every call that may have made ciphertext (read, write, accept, refuse, close) look at
// output(). A server engine stops once it has read the ClientHello (phase Hello, hello() says what
// is in it) until accept() or refuse() has decided on it: so that the answer may wait for the
// upstream's handshake, and ALPN can mirror what upstream has chosen.
//
// Bounds: an engine holds at most kMaxOutput and one record of ciphertext, and no plaintext: read()
// takes no more than fits what it is given, and neither read() nor write() takes anything while
// output() is full. Without renegotiation and compression. Verification of servers cannot be
// switched off.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/crypto/authority.h"
#include "mvm/crypto/trust.h"

namespace mvm::crypto {

// write() takes no more once this much ciphertext waits.
inline constexpr size_t kMaxOutput = 128 * 1024;
inline constexpr size_t kMaxAlpnProtocols = 16;
inline constexpr size_t kCachedSessions = 256;  // of upstream servers, a TlsClientContext

// RFC 8446 §6. Those we send.
enum class TlsAlert : uint8_t {
  HandshakeFailure = 40,
  AccessDenied = 49,
  InternalError = 80,
  UnrecognizedName = 112,
  NoApplicationProtocol = 120,
};
std::string_view alert_name(uint8_t alert) noexcept;  // "unknown_ca"; "" for no known one
// The record that carries a fatal alert before any keys: what a relay that does not intercept
// answers to a ClientHello it refuses.
std::array<std::byte, 7> alert_record(TlsAlert alert) noexcept;

enum class TlsPhase {
  Hello,      // server only: the ClientHello is whole; accept() or refuse() goes on
  Handshake,  // needs more ciphertext
  Open,       // application data may flow
  Closed,     // both sides have sent close_notify
  Failed,     // failure() says why; an alert may be in output()
};

enum class TlsFault {
  None,
  Protocol,          // the peer broke the protocol, or does not speak it
  Alert,             // the peer sent a fatal alert
  NoCommonVersion,   // nor cipher, curve or signature
  NoCommonProtocol,  // ALPN
  Refused,           // by refuse()
  Expired,
  NotYetValid,
  SelfSigned,
  UnknownAuthority,
  WrongHost,
  Revoked,
  BadCertificate,  // anything else that verification finds
  Truncated,       // the transport ended without close_notify
};
std::string_view fault_name(TlsFault fault) noexcept;  // "wrong_host", for records

struct TlsFailure {
  TlsFault fault = TlsFault::None;
  uint8_t alert = 0;  // with TlsFault::Alert: the peer's
  // One line for people, without the host's name in front: "its certificate expired on
  // 2024-05-01". What it quotes from the peer is printable and short.
  std::string text;
};

// What a client asked for. Views are valid until accept() or refuse().
struct TlsHello {
  std::string server_name;             // lower case; empty when there is none
  std::vector<std::string> protocols;  // ALPN, in the client's order; at most kMaxAlpnProtocols
};

// One sandbox's side towards its guest: its settings, its session tickets. Outlives its engines.
class TlsServerContext {
 public:
  TlsServerContext();
  ~TlsServerContext();
  TlsServerContext(const TlsServerContext&) = delete;
  TlsServerContext& operator=(const TlsServerContext&) = delete;

  struct Impl;
  Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// One sandbox's side towards upstream servers: settings, trust, sessions to resume. Outlives its
// engines.
class TlsClientContext {
 public:
  explicit TlsClientContext(std::shared_ptr<const TrustStore> trust);
  ~TlsClientContext();
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;

  struct Impl;
  Impl& impl() noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// The server that a client engine talks to.
struct TlsPeer {
  std::string host;     // a DNS name, which becomes the SNI, or an address; verified in either case
  uint16_t port = 443;  // sessions are resumed only towards the same host, port and protocols
  std::vector<std::string> protocols;       // ALPN to offer, best first; empty: no ALPN
  std::shared_ptr<const TrustStore> trust;  // instead of the context's; nothing: the context's
};

class TlsEngine {
 public:
  explicit TlsEngine(TlsServerContext& context);
  // The ClientHello is in output() at once.
  TlsEngine(TlsClientContext& context, const TlsPeer& peer);
  ~TlsEngine();
  TlsEngine(TlsEngine&&) noexcept;
  TlsEngine& operator=(TlsEngine&&) noexcept;

  TlsPhase phase() const noexcept;
  const TlsFailure& failure() const noexcept;

  // Takes ciphertext from the front of `input` and puts plaintext into `plain`; returns how much.
  // Input is left over only when `plain` is full, when output() is full, in phase Hello, and after
  // the peer's close or a failure.
  size_t read(ByteView& input, std::span<std::byte> plain);
  // Some plaintext of records already taken may still come by read() with no input.
  bool holds_plaintext() const noexcept;

  // Takes plaintext from the front of `plain`; nothing unless the phase is Open, and after close().
  void write(ByteView& plain);
  // Ciphertext for the peer; valid until the next call that is not const.
  ByteView output() const noexcept;
  void sent(size_t length);  // the front of output() is on its way

  // Ends our direction (close_notify). The peer may go on sending.
  void close();
  // The peer's close_notify has come: that is all it had to say.
  bool peer_closed() const noexcept;
  // The transport has ended. Truncated, unless the peer's close_notify came before: how a cut off
  // body that has no length is told from a whole one.
  void end_of_input();

  // ---- server, in phase Hello
  const TlsHello& hello() const noexcept;
  // Goes on with `leaf`, choosing `protocol`: empty for no ALPN. One that the client did not offer
  // fails with no_application_protocol. May make output and change the phase.
  void accept(std::shared_ptr<const Leaf> leaf, std::string_view protocol);
  void refuse(TlsAlert alert);

  // ---- client
  // The server has asked for a client's certificate, of which there is none. Many go on without.
  bool asked_for_certificate() const noexcept;

  // ---- once Open
  std::string_view protocol() const noexcept;  // ALPN; empty when none was agreed
  std::string_view version() const noexcept;   // "TLSv1.3"
  bool resumed() const noexcept;

  struct Impl;  // this module's

 private:
  std::unique_ptr<Impl> impl_;
};

}
