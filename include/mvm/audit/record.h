#pragma once
// One line of an audit log: what can be recorded, how it is encoded, and how it is read back.
//
// A line is a flat JSON object of version 1 (docs/audit.md): the envelope v, seq, time, kind; the
// kind's own fields; prev, the SHA-256 of the line before; and on some kinds sig. Keys come from a
// closed list, values are unsigned integers or the bounded text of fields.h, there is no white
// space and no escape. So a line has exactly one encoding, and its hash is of exactly these bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "mvm/audit/fields.h"
#include "mvm/base/ip.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/crypto/hash.h"
#include "mvm/policy/policy.h"
#include "mvm/proto/end.h"

namespace mvm::audit {

inline constexpr uint64_t kVersion = 1;
// Without its line feed. The longest record there can be is under half of it.
inline constexpr size_t kMaxLine = 4096;

// The last record of a log, as another record or a caller remembers it.
struct Head {
  uint64_t seq = 0;
  crypto::Digest hash{};
  bool operator==(const Head&) const = default;
};

// ---- events: what may be recorded, and nothing else

struct SandboxCreated {
  LogId sandbox;
  Name name;
  Name image;
  DigestText digest;
};
struct SandboxStarted {
  LogId sandbox;
  Name name;
};
struct SandboxEnded {
  LogId sandbox;
  Name name;
  proto::EndReason reason = proto::EndReason::Stopped;
  std::optional<Head> log;  // where the sandbox's own log ended
};
struct SandboxRemoved {
  LogId sandbox;
  Name name;
};
struct ImageImported {
  Name name;
  DigestText digest;
};
struct ImageRemoved {
  Name name;
};
// The log of a removed sandbox was kept for its time, and is gone.
struct LogExpired {
  LogId sandbox;
  std::optional<Head> log;
};
struct DaemonStarted {};
// A port of the host leads to one of the sandbox, from a start of it on, or no longer.
struct PortPublished {
  LogId sandbox;
  Name name;
  IpAddress address;  // of the host
  uint16_t port = 0;
  uint16_t guest_port = 0;
};
struct PortWithdrawn {
  LogId sandbox;
  Name name;
  IpAddress address;
  uint16_t port = 0;
};

struct ExecStarted {
  RunId run;
};
struct ExecEnded {
  RunId run;
  // One of them, or neither: it ended without a result.
  std::optional<uint8_t> exit_code;
  std::optional<uint8_t> signal;
  bool timed_out = false;
};

// One decision about traffic of the guest, or the end of a flow that was admitted.
struct Egress {
  enum class Kind : uint8_t { Dns, Connect, Tls, Http, End };
  enum class Transport : uint8_t { Tcp, Udp };
  Kind kind = Kind::Connect;
  uint64_t flow = 0;  // 0: none
  HostName host;
  std::optional<IpAddress> address;
  uint16_t port = 0;                                    // 0: none
  std::optional<Transport> transport = Transport::Tcp;  // nothing: not known
  Method method;
  Path path;
  policy::Outcome outcome = policy::Outcome::Deny;
  policy::Reason reason = policy::Reason::PolicyDenied;
  bool audited = false;  // let through although it would be refused
  RuleId rule;
  uint64_t count = 1;
  uint64_t sent = 0;
  uint64_t received = 0;
};

// A rule was added to those of a running sandbox.
struct PolicyChanged {
  policy::Outcome outcome = policy::Outcome::Deny;
  RuleId rule;
};
// A person has said what becomes of traffic that was asked about.
struct QuestionAnswered {
  uint64_t question = 0;
  policy::Outcome outcome = policy::Outcome::Deny;
  bool session = false;  // and of all that is equal to it
};
// What became of a secret in one request and its answer.
struct SecretUse {
  enum class Kind : uint8_t { Used, Inert, Misused, Leaked, Masked, Unreadable };
  Kind kind = Kind::Used;
  uint64_t flow = 0;
  HostName host;
  uint16_t port = 0;
  VariableName secret;
  uint64_t count = 1;
};
// What became of personal data in one request and its answer.
struct PiiUse {
  enum class Kind : uint8_t {
    Detected,
    Tokenized,
    Redacted,
    Denied,
    Restored,
    Mismatched,
    Undecodable
  };
  Kind kind = Kind::Detected;
  uint64_t flow = 0;
  HostName host;
  uint16_t port = 0;
  ClassName data;   // the class
  ClassName place;  // "path", "query", "header", "body"
  uint64_t count = 1;
  ClassName change;  // of Mismatched: how the token was changed
};

// What one exchange with an AI provider has used.
struct AiUse {
  enum class Told : uint8_t {
    Reported,  // by the provider
    Unknown,   // by nobody; the counts are what is known of it at least
    Nothing    // nothing was used: an error, or something that costs nothing
  };
  Told told = Told::Nothing;
  uint64_t flow = 0;  // 0: it was under way when the sandbox's process ended
  HostName host;
  uint16_t port = 0;
  ClassName provider;
  ModelName model;
  uint64_t input = 0;  // tokens, as metering counts them
  uint64_t output = 0;
  uint64_t total = 0;
  uint64_t cached = 0;
  uint64_t reasoning = 0;
  uint64_t estimated = 0;  // that the budget was charged besides
};

using Event =
    std::variant<SandboxCreated, SandboxStarted, SandboxEnded, SandboxRemoved, ImageImported,
                 ImageRemoved, LogExpired, DaemonStarted, PortPublished, PortWithdrawn, ExecStarted,
                 ExecEnded, Egress, PolicyChanged, QuestionAnswered, SecretUse, PiiUse, AiUse>;

// ---- records of the log itself

// Bytes behind the last whole line of the files before, that are no record: a write was cut short.
struct Torn {
  uint64_t bytes = 0;
  crypto::Digest hash{};
  bool operator==(const Torn&) const = default;
};
// The first record of a file. Signed by the daemon's key when it names a new key of the log, else
// by the key that the log has.
struct FileOpened {
  LogId log;
  uint64_t file = 1;  // its number
  std::optional<crypto::PublicKey> key;
  Torn torn;
  uint64_t missed = 0;  // events that could not be recorded before
};
struct Checkpoint {
  uint64_t missed = 0;
};
struct LogClosed {
  uint64_t missed = 0;
};
using LogRecord = std::variant<FileOpened, Checkpoint, LogClosed>;

// ---- encoding

using Time = std::chrono::system_clock::time_point;

struct Position {
  uint64_t seq = 1;
  crypto::Digest prev{};  // of the line before; zero for the first
};

struct Detail {
  bool paths = true;  // of requests
};

// Lines without the line feed.
std::string encode(const Position& at, Time time, const LogId& sandbox, const Event& event,
                   const Detail& detail);
std::string encode(const Position& at, Time time, const LogRecord& record,
                   const crypto::SigningKey& key);

// ---- reading

struct Line {
  uint64_t seq = 0;
  std::string_view time;
  std::string_view kind;
  // All but v, seq, time, kind, prev and sig, in their order. Numbers as their digits.
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  crypto::Digest prev{};
  std::optional<crypto::Signature> signature;
  std::string_view signed_part;  // what the signature is of

  // Empty when there is none.
  std::string_view field(std::string_view key) const;
  uint64_t number(std::string_view key) const;  // 0 when there is none
};

// The views are into `text`, which is without its line feed. Nothing when it is no record of this
// version.
std::optional<Line> parse(std::string_view text);
// Whether `text` is a record of a later version.
bool is_later_version(std::string_view text);

bool is_signed_by(const Line& line, const crypto::PublicKey& key);
crypto::Digest hash_of(std::string_view line);

// "2026-01-31T12:00:00.123456Z"
std::string time_text(Time time);
// 64 hexadecimal digits.
std::optional<crypto::Digest> digest_from_hex(std::string_view text);
std::optional<crypto::PublicKey> key_from_hex(std::string_view text);

std::string_view outcome_word(policy::Outcome outcome);

// What an event of the egress proxy says (mvm/egress/event.h), as a record. A template, because
// that module lies above this one.
template <typename ProxyEvent>
Egress egress_record(const ProxyEvent& event) {
  Egress out;
  out.kind = static_cast<Egress::Kind>(event.kind);
  out.flow = event.flow;
  out.host = HostName(event.host);
  out.address = event.address;
  out.port = event.port;
  out.transport.reset();
  if (event.transport) out.transport = static_cast<Egress::Transport>(*event.transport);
  out.method = Method(event.method);
  out.path = Path(event.path);
  out.outcome = event.outcome;
  out.reason = event.reason;
  out.audited = event.audited;
  out.rule = RuleId(event.rule);
  out.count = event.count;
  out.sent = event.sent;
  out.received = event.received;
  return out;
}

}
