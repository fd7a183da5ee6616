#pragma once
// What the daemon and its clients say to each other: the one definition of every request and
// answer. JSON is an encoding of these structs and is known to the .cc file alone.
//
// Decoding is strict: a key of a request that we do not know and a value of the wrong type are
// Error{Invalid} naming the key, because a misspelt limit that is silently ignored is a limit that
// does not hold. Unknown keys of answers are skipped: the daemon may be newer than its client.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/proto/end.h"
#include "mvm/proto/health.h"
#include "mvm/proto/network.h"
#include "mvm/proto/ports.h"
#include "mvm/proto/secrets.h"

namespace mvm::api {

inline constexpr uint32_t kApiVersion = 1;

// Bounds on what a client may ask for; the daemon adds the host's own.
inline constexpr uint32_t kMaxCpus = 32;
inline constexpr uint64_t kMinMemory = uint64_t{64} << 20;
inline constexpr uint64_t kMinDisk = uint64_t{16} << 20;
inline constexpr uint64_t kMaxDisk = uint64_t{16} << 40;
inline constexpr size_t kMaxEnv = 256;         // entries of env and of labels, each
inline constexpr size_t kMaxText = 32 * 1024;  // one value of either
inline constexpr uint64_t kMaxBootTimeoutMs = 3'600'000;
inline constexpr uint64_t kMaxMemory = uint64_t{64} << 30;
inline constexpr uint64_t kHugePage = uint64_t{2} << 20;
inline constexpr uint64_t kMinWatchdogMs = 5'000;
inline constexpr uint64_t kMaxWatchdogMs = 24ULL * 3600 * 1000;
// How long a start may wait for its turn.
inline constexpr uint64_t kMaxQueueMs = 1'800'000;
inline constexpr uint64_t kMaxLimitMs = 366ULL * 24 * 3600 * 1000;
inline constexpr uint32_t kMaxPids = 4'194'304;  // PID_MAX_LIMIT of Linux
inline constexpr uint64_t kMaxOutput = uint64_t{1} << 40;

// What a sandbox and each command in it may use. 0: no limit.
struct Limits {
  uint64_t wall_clock_ms = 0;    // of one command
  uint32_t pids = 0;             // processes and threads of one command at once
  uint64_t output = 0;           // bytes that one command may print
  uint64_t ttl_ms = 0;           // the sandbox ends so long after each start
  uint64_t idle_timeout_ms = 0;  // and after so long without use
  uint64_t retention_ms = 0;     // an ended sandbox is removed after so long
  bool operator==(const Limits&) const = default;
};

// What to make. The values here are the defaults; an absent key keeps them.
// A second writable disk, which outlives the sandbox: who is made with its name later finds what is
// on it. One sandbox at a time.
struct KeptDisk {
  std::string name;
  std::string path;   // where it is in the sandbox; new, it gets what the image has there
  uint64_t size = 0;  // bytes, sparse; one that is there grows to it and never shrinks
  bool operator==(const KeptDisk&) const = default;
};

struct SandboxSpec {
  std::string name;    // empty: the daemon picks one
  std::string image;   // name or digest; mandatory
  std::string kernel;  // name of a kernel bundle; empty: the daemon's default
  uint32_t cpus = 1;
  uint64_t memory = uint64_t{512} << 20;  // bytes
  uint64_t disk = uint64_t{8} << 30;      // bytes; the writable layer, sparse
  std::optional<KeptDisk> kept_disk;
  uint64_t disk_bandwidth = 0;  // of each disk, bytes a second; 0: no limit
  uint64_t disk_iops = 0;       // of each disk, requests a second; 0: no limit
  bool huge_pages = false;      // memory from the host's reserve of 2 MiB pages
  uint64_t watchdog_ms = 0;     // end a guest that has not answered for so long; 0: never
  std::map<std::string, std::string> env;  // for every command in the sandbox
  std::string workdir;                     // empty: the image's, else "/"
  std::string user;                        // empty: the image's, else root
  std::string hostname;                    // empty: the name
  std::string profile = "dev";             // or "sealed": proto/profile.h
  bool audit_strict = false;  // a record is on the disk before what it tells of is done
  std::map<std::string, std::string> labels;
  bool ephemeral = false;  // remove it, with its disk, when it ends
  bool wait = true;        // answer when commands can run, not when the process was started
  uint64_t boot_timeout_ms = 60'000;
  Limits limits;
  proto::NetworkConfig network;
  std::vector<proto::PublishedPort> ports;
  // How its health is checked. Absent: as the image says; without a command: not at all.
  std::optional<proto::HealthCheck> health;
  std::vector<proto::SecretRule> secrets;
  // Of each of them; on the way to the daemon only, which neither stores nor shows them.
  proto::SecretValues secret_values;
  bool operator==(const SandboxSpec&) const = default;
};

// Queued: it waits for its turn to start; only so many start at once.
enum class SandboxState { Queued, Starting, Running, Stopping, Stopped, Failed, Crashed };
std::string_view state_name(SandboxState state);  // "starting", ...
std::optional<SandboxState> state_from_name(std::string_view name);
// Whether a process stands behind it, or is about to.
bool is_live(SandboxState state);
SandboxState state_after(proto::EndReason reason);

struct End {
  proto::EndReason reason = proto::EndReason::HostFault;
  std::string detail;  // for people; may be empty
  bool operator==(const End&) const = default;
};

// In bytes; what is absent is not known. What starts with guest_ is the guest's word.
struct MemoryUse {
  std::optional<uint64_t> resident;  // of the monitor's process, the guest's memory included
  std::optional<uint64_t> guest_total;
  std::optional<uint64_t> guest_free;
  std::optional<uint64_t> guest_available;
  std::optional<uint64_t> guest_caches;
  std::optional<uint64_t> balloon;   // given up by the guest because it was asked to
  std::optional<uint64_t> released;  // given back to the host since the start
  bool operator==(const MemoryUse&) const = default;
};

// What the checks of its health have come to.
struct Health {
  proto::Health state = proto::Health::Starting;
  uint32_t failures = 0;             // in a row
  uint64_t checks = 0;               // since the start
  std::string checked_at;            // of the last; RFC 3339, UTC
  std::optional<int64_t> exit_code;  // of it; absent when it did not come to one, and then
  std::string why;                   // says why
  std::string output;                // of it, the first 4 KiB; the guest's word
  bool operator==(const Health&) const = default;
};

struct Sandbox {
  std::string id;
  std::string name;
  SandboxState state = SandboxState::Starting;
  std::string image;
  std::string image_digest;
  std::string kernel;
  uint32_t cpus = 0;
  uint64_t memory = 0;
  uint64_t disk = 0;
  uint64_t disk_bandwidth = 0;
  uint64_t disk_iops = 0;
  std::string created_at;  // RFC 3339, UTC
  std::string started_at;  // empty: not yet
  std::string ended_at;    // empty: not yet
  std::optional<End> end;
  int64_t sandbox_pid = 0;  // 0: none
  int64_t monitor_pid = 0;
  std::map<std::string, std::string> labels;
  bool ephemeral = false;
  std::string profile;        // dev, sealed
  bool audit_strict = false;  // as it was asked for; the daemon may have it so for every sandbox
  Limits limits;
  // What is left of the limits of time, as far as they hold now: the first two while it runs (all
  // of the idle time while it is used), the last once it has ended.
  std::optional<uint64_t> ttl_left_ms;
  std::optional<uint64_t> idle_left_ms;
  std::optional<uint64_t> retention_left_ms;
  std::string control_socket;
  std::string console_log;
  std::optional<MemoryUse> memory_use;  // `mvm inspect` of a running one adds it
  proto::NetworkConfig network;
  // Why it runs without a network although one was asked for; empty when nothing is amiss.
  std::string network_missing;
  std::vector<proto::PublishedPort> ports;
  std::optional<Health> health;  // while it runs, when its health is checked
  std::vector<proto::SecretRule> secrets;
  bool operator==(const Sandbox&) const = default;
};

struct StopRequest {
  uint64_t grace_ms = 10'000;  // between asking the guest and killing it
  bool kill = false;           // do not ask
  bool operator==(const StopRequest&) const = default;
};

// For the end of a sandbox. Whoever wants to wait longer asks again.
inline constexpr uint64_t kMaxWaitMs = 60'000;
struct WaitRequest {
  uint64_t timeout_ms = kMaxWaitMs;
  bool operator==(const WaitRequest&) const = default;
};

struct StartRequest {
  bool wait = true;
  uint64_t boot_timeout_ms = 60'000;
  proto::SecretValues secret_values;  // of the sandbox's secrets
  bool operator==(const StartRequest&) const = default;
};

// What a daemon put in order at its start, because an earlier one or a sandbox had been killed.
struct Repair {
  std::string at;
  std::vector<std::string> actions;  // for people
  bool operator==(const Repair&) const = default;
};

struct Version {
  std::string version;
  uint32_t api = kApiVersion;
  int64_t pid = 0;
  std::string started_at;
  std::string runtime_dir;
  std::string data_dir;
  uint64_t sandboxes_live = 0;
  int64_t spare_pid = 0;  // of the sandbox process that is nobody's yet; 0: there is none
  std::optional<Repair> last_repair;  // of this daemon or of an earlier one
  bool operator==(const Version&) const = default;
};

struct Image {
  std::string name;                // "base:latest"; the first of `names`; empty when it has none
  std::vector<std::string> names;  // all of them
  std::string digest;              // SHA-256 of its root file system, 64 hexadecimal digits
  std::string source;              // path or reference it was made from
  std::string source_kind;         // "directory", "tar", "oci-layout", "registry", ...
  std::string source_digest;       // "sha256:...", of the OCI manifest that it was made from
  std::string source_index;        // of the OCI index that this was chosen from
  uint64_t size = 0;               // bytes of its root file system, as stored
  uint64_t content_bytes = 0;      // bytes of its files
  uint64_t files = 0;
  std::string created_at;
  std::vector<std::string> entrypoint;
  std::vector<std::string> command;
  std::vector<std::string> env;  // "NAME=value"
  std::string workdir;
  std::string user;
  std::string stop_signal;
  std::optional<proto::HealthCheck> health;  // absent: none is named
  std::map<std::string, std::string> labels;
  std::string kernel;                // that it came with; empty: none
  std::vector<std::string> used_by;  // names of sandboxes
  std::string problem;               // why it cannot be used; little else is known of it then
  bool operator==(const Image&) const = default;
};

struct ImportRequest {
  std::string source;  // absolute path of a directory or an archive
  std::string name;
  std::string reference;     // of an image in it, where there are several
  std::string platform;      // "linux/amd64"; empty: the host's
  bool drop_set_id = false;  // archives: without set-user-ID and set-group-ID bits
  bool operator==(const ImportRequest&) const = default;
};

struct PullRequest {
  std::string reference;  // "python:3.12", "ghcr.io/org/app@sha256:..."
  std::string name;       // empty: the reference's
  std::string platform;
  bool drop_set_id = false;
  bool operator==(const PullRequest&) const = default;
};

// An image of what a command in a sandbox writes: a tar archive of a root file system.
struct CaptureRequest {
  std::string sandbox;            // name or id; it runs
  std::vector<std::string> argv;  // run in "/"
  std::string name;               // of the image
  std::string source;             // where it comes from, for people
  std::string key;                // "flake:..."; the same for the same work (AdoptRequest)
  std::vector<std::string> entrypoint;
  std::vector<std::string> env;  // "NAME=value"
  std::string workdir;
  std::string user;
  std::optional<proto::HealthCheck> health;
  std::map<std::string, std::string> labels;
  // What the archive cannot say.
  struct Attributes {
    std::string path;  // absolute, in the image
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    bool operator==(const Attributes&) const = default;
  };
  std::vector<Attributes> attributes;
  std::string kernel;       // of the image: name of an installed one; empty: the host's default
  uint64_t timeout_ms = 0;  // how long it may take; 0: no limit
  bool operator==(const CaptureRequest&) const = default;
};
inline constexpr std::string_view kFlakeKey = "flake:";  // begins the key of a capture

// Gives the image that was made under this key a name.
struct AdoptRequest {
  std::string key;
  std::string name;
  bool operator==(const AdoptRequest&) const = default;
};

struct TagRequest {
  std::string name;  // another name for the image; taken from the one that had it
  bool operator==(const TagRequest&) const = default;
};

struct PruneRequest {
  bool all = false;  // also images with a name, where no sandbox was made from them
  bool dry_run = false;
  bool operator==(const PruneRequest&) const = default;
};

struct PruneResult {
  std::vector<std::string> images;  // digests
  uint64_t layers = 0;              // kept for later pulls, and of no image any more
  uint64_t bytes = 0;               // of disk, of both
  bool operator==(const PruneResult&) const = default;
};

struct ImportProgress {
  std::string stage;   // "waiting", "downloading", "reading", "writing", "hashing", "storing"
  uint64_t done = 0;   // bytes
  uint64_t total = 0;  // 0: not known
  std::string note;    // something was left out, and why; the other members are then empty
  bool operator==(const ImportProgress&) const = default;
};

struct Kernel {
  std::string name;
  std::string image;  // path of its kernel image
  uint64_t size = 0;
  uint64_t modules = 0;
  bool is_default = false;
  std::string problem;  // why it cannot be used; little else is known of it then
  bool operator==(const Kernel&) const = default;
};

struct KernelImportRequest {
  std::string source;  // absolute path of a bundle's directory
  bool make_default = false;
  bool of_image = false;  // installed as NAME-DIGEST: takes no other's place
  bool operator==(const KernelImportRequest&) const = default;
};

// An Error with the way out. Thrown by the daemon's side and again, the same, by the client's.
class ApiError : public Error {
 public:
  ApiError(Kind kind, std::string message, std::string hint)
      : Error(kind, std::move(message)), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};
unsigned http_status(Kind kind);

// One line of JSON without a line break. decode_X throws Error{Invalid} naming the key.
std::string encode(const SandboxSpec& value);
std::string encode(const Sandbox& value);
std::string encode(const std::vector<Sandbox>& value);
std::string encode(const proto::PublishedPort& value);
std::string encode(const std::vector<proto::PublishedPort>& value);
std::string encode(const StopRequest& value);
std::string encode(const StartRequest& value);
std::string encode(const WaitRequest& value);
std::string encode(const Version& value);
std::string encode(const Image& value);
std::string encode(const std::vector<Image>& value);
std::string encode(const ImportRequest& value);
std::string encode(const PullRequest& value);
std::string encode(const CaptureRequest& value);
std::string encode(const AdoptRequest& value);
std::string encode(const TagRequest& value);
std::string encode(const PruneRequest& value);
std::string encode(const PruneResult& value);
std::string encode_import_progress(const ImportProgress& progress);  // {"progress":…}
std::string encode(const Kernel& value);
std::string encode(const std::vector<Kernel>& value);
std::string encode(const KernelImportRequest& value);
std::string encode_error(Kind kind, std::string_view message, std::string_view hint);

SandboxSpec decode_spec(std::string_view json);
Sandbox decode_sandbox(std::string_view json);
std::vector<Sandbox> decode_sandboxes(std::string_view json);
proto::PublishedPort decode_port(std::string_view json);
StopRequest decode_stop(std::string_view json);
StartRequest decode_start(std::string_view json);
WaitRequest decode_wait(std::string_view json);
Version decode_version(std::string_view json);
Image decode_image(std::string_view json);
std::vector<Image> decode_images(std::string_view json);
ImportRequest decode_import(std::string_view json);
PullRequest decode_pull(std::string_view json);
CaptureRequest decode_capture(std::string_view json);
AdoptRequest decode_adopt(std::string_view json);
TagRequest decode_tag(std::string_view json);
PruneRequest decode_prune(std::string_view json);
PruneResult decode_prune_result(std::string_view json);
Kernel decode_kernel(std::string_view json);
std::vector<Kernel> decode_kernels(std::string_view json);
KernelImportRequest decode_kernel_import(std::string_view json);
ApiError decode_error(std::string_view json);

// A line of the answer to an import: exactly one of the three.
struct ImportEvent {
  std::optional<ImportProgress> progress;
  std::optional<Image> image;
  std::optional<ApiError> error;
};
std::string encode_import_image(const Image& image);  // {"image":…}
ImportEvent decode_import_event(std::string_view json);

}
