#pragma once
// Messages besides exec and copy: the greeting, the envelope of End, and the small verbs that the
// agent or the sandbox process answers.

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/base/error.h"
#include "mvm/proto/end.h"
#include "mvm/proto/frame.h"
#include "mvm/proto/health.h"

namespace mvm::proto {

inline constexpr size_t kMaxWord = 64;       // roles, verbs, states, versions
inline constexpr size_t kMaxMessage = 4096;  // text for people
inline constexpr size_t kMaxSandboxName = 64;

// ---- greeting -------------------------------------------------------------------------------

// The first frame of each side, on kConnectionStream. Versions that differ end the connection.
struct Hello {
  uint32_t version = kProtocolVersion;
  std::string role;      // "agent", "sandbox", "client"
  std::string software;  // version of the program, for people
  bool operator==(const Hello&) const = default;

  Bytes encode() const;
  static std::optional<Hello> decode(ByteView payload) noexcept;
};

// ---- envelopes ------------------------------------------------------------------------------

// A Request that is its verb alone.
Bytes encode_request(std::string_view verb);
// The verb of any Request: where dispatch starts. A view into the payload.
std::optional<std::string_view> request_verb(ByteView payload) noexcept;
// The name of any Event.
std::optional<std::string_view> event_name(ByteView payload) noexcept;

struct ErrorReply {
  Kind kind = Kind::Internal;  // travels by name; an unknown name is Internal
  std::string message;         // the decoder cuts it at kMaxMessage
  // The sandbox has ended, and so: why the stream could not go on.
  std::optional<EndReason> sandbox_end = std::nullopt;
  bool operator==(const ErrorReply&) const = default;
};

// Payloads of End. `result` is an encoded message, or empty for none.
Bytes encode_ok(ByteView result = {});
Bytes encode_error(const ErrorReply& error);

struct End {
  std::optional<ErrorReply> error;
  ByteView result;  // without an error: what stood under "ok", for the verb's own decode

  static std::optional<End> decode(ByteView payload) noexcept;
};

// ---- verbs of the agent ---------------------------------------------------------------------

inline constexpr std::string_view kPingVerb = "ping";  // End ok, no result
inline constexpr std::string_view kInfoVerb = "info";  // End ok with AgentInfo

struct AgentInfo {
  std::string software;  // version of the agent
  std::string kernel;    // release, as uname -r
  uint64_t uptime_ms = 0;
  uint64_t memory_total = 0;      // bytes
  uint64_t memory_available = 0;  // bytes
  uint32_t commands = 0;          // running now
  bool operator==(const AgentInfo&) const = default;

  Bytes encode() const;
  static std::optional<AgentInfo> decode(ByteView item) noexcept;
};

// Ends every process, unmounts and powers off. End ok is sent before. Commands are asked to end by
// `signal`; where that is another than TERM, whatever else there is gets TERM once they have ended,
// or half of `grace` is over. What is left after `grace` gets KILL.
inline constexpr std::string_view kShutdownVerb = "shutdown";
struct ShutdownRequest {
  std::chrono::milliseconds grace{1000};
  uint8_t signal = SIGTERM;  // 1 to kMaxSignal
  bool operator==(const ShutdownRequest&) const = default;

  Bytes encode() const;
  static std::optional<ShutdownRequest> decode(ByteView payload) noexcept;
};

// These name a bundle in place of what is built in: OpenSSL and Go (as Nix builds them, too), curl,
// Python's requests and pip, Git, Cargo, the AWS programs, gRPC.
inline constexpr std::array<std::string_view, 10> kBundleVariables{
    "SSL_CERT_FILE",     "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",          "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
    "HTTPLIB2_CA_CERTS", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"};
// These add to it: Node, Deno.
inline constexpr std::array<std::string_view, 2> kAddingVariables{"NODE_EXTRA_CA_CERTS",
                                                                  "DENO_CERT"};

// The certificate authority (PEM) that the sandbox's programs are to trust: it signs for the hosts
// whose connections are inspected. Once, before anything else. End ok, no result.
inline constexpr std::string_view kTrustVerb = "trust";
inline constexpr size_t kMaxAuthority = 16 * 1024;
inline constexpr size_t kMaxTrustedFiles = 16;
struct TrustRequest {
  std::string authority;
  // What the sandbox's own environment (its image's, mostly) names by these variables: bundles
  // among it get the authority too.
  std::vector<std::string> files;
  bool operator==(const TrustRequest&) const = default;

  Bytes encode() const;
  static std::optional<TrustRequest> decode(ByteView payload) noexcept;
};

// Sets the sandbox's clock. End ok, no result.
inline constexpr std::string_view kSyncTimeVerb = "sync_time";
struct SyncTimeRequest {
  uint64_t unix_nanoseconds = 0;
  bool operator==(const SyncTimeRequest&) const = default;

  Bytes encode() const;
  static std::optional<SyncTimeRequest> decode(ByteView payload) noexcept;
};

// ---- verbs of the sandbox process -----------------------------------------------------------

// How a sandbox ended: the result of "sandbox.wait", and the content of its exit record.
struct SandboxEnd {
  EndReason reason = EndReason::HostFault;
  std::string detail;  // for people
  bool operator==(const SandboxEnd&) const = default;

  Bytes encode() const;
  static std::optional<SandboxEnd> decode(ByteView item) noexcept;
};

// End ok with no result once the agent serves; End error when the sandbox ends first.
inline constexpr std::string_view kSandboxReadyVerb = "sandbox.ready";
// End ok with SandboxEnd when the sandbox has ended.
inline constexpr std::string_view kSandboxWaitVerb = "sandbox.wait";
// End ok with SandboxStatus.
inline constexpr std::string_view kSandboxStatusVerb = "sandbox.status";
// Every verb that starts with this is answered by the sandbox process, all others by the agent.
inline constexpr std::string_view kSandboxVerbPrefix = "sandbox.";

struct SandboxStatus {
  std::string id;
  std::string name;
  std::string state;         // "starting", "running", "stopping", "stopped"
  uint32_t sandbox_pid = 0;  // in the sandbox process's own pid namespace
  uint32_t monitor_pid = 0;
  uint64_t started_unix_ms = 0;
  // What is left of the sandbox's time; nothing when that is not limited.
  std::optional<uint64_t> ttl_left_ms;
  // The same of the time without use. While it is used, all of it.
  std::optional<uint64_t> idle_left_ms;
  // Why it has no network although one was asked for; empty when nothing is amiss.
  std::string network_missing;
  std::optional<HealthStatus> health;  // nothing: its health is not checked
  std::optional<SandboxEnd> end;
  bool operator==(const SandboxStatus&) const = default;

  Bytes encode() const;
  static std::optional<SandboxStatus> decode(ByteView item) noexcept;
};

// End ok with SandboxEnd when it has stopped.
inline constexpr std::string_view kSandboxStopVerb = "sandbox.stop";
struct StopRequest {
  bool kill = false;                      // at once, without telling the guest
  std::chrono::milliseconds grace{5000};  // for the guest to end by itself
  bool operator==(const StopRequest&) const = default;

  Bytes encode() const;
  static std::optional<StopRequest> decode(ByteView payload) noexcept;
};

}
