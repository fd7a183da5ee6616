#pragma once
// What the daemon hands a new `mvm sandbox` process behind the MachineBase (machine_base.h): one
// SEQPACKET message on descriptor 3, this struct in CBOR and the descriptors of SandboxFd in order.
// Everything is opened by the daemon; the sandbox process opens no path it was not given.

#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/proto/health.h"
#include "mvm/proto/machine_base.h"
#include "mvm/proto/network.h"
#include "mvm/proto/profile.h"

namespace mvm::proto {

inline constexpr size_t kMaxConfigMessage = 128 * 1024;
// Names and values of `env` together. They travel with every exec, in one frame (kMaxPayload) that
// has to hold the command's arguments too; and the message with all of it must fit the buffer of a
// socket nobody has tuned (net.core.wmem_default, 208 KiB).
inline constexpr size_t kMaxEnvironmentBytes = 48 * 1024;

enum class SandboxFd : size_t {
  Control,  // listening socket runtime/s/<name>/control.sock
  Vsock,    // listening socket runtime/s/<name>/vsock.sock ("CONNECT <port>\n")
  Runtime,  // O_PATH directory runtime/s/<name>, where guest connections look for vsock.sock_<port>
  Data,     // O_PATH directory data/sandboxes/<id>, where exit.json goes
  ConsoleLog,  // data/sandboxes/<id>/console.log, O_RDWR
  Root,        // root file system, read-only
  Overlay,     // writable layer, O_RDWR
  AuditLog,    // O_PATH directory data/audit/<id>, where its next files go
  AuditFile,   // the one that was begun for this start, to append to
  KeptDisk,  // a disk that outlives the sandbox, O_RDWR; there only when the configuration has one
  Count,
};

// How the sandbox's audit log goes on (mvm/audit/log.h); its descriptors are AuditLog and
// AuditFile.
struct AuditConfig {
  uint64_t file = 1;       // the number of the file
  uint64_t file_size = 0;  // bytes
  uint64_t log_size = 0;   // of all its files
  uint64_t seq = 1;        // of the next record
  std::array<std::byte, 32> prev{};
  std::array<std::byte, 32> key{};  // the log's private key; nobody else keeps it
  bool strict = false;              // on the disk before anything is done about it
  bool paths = true;                // of requests are recorded
  bool operator==(const AuditConfig&) const = default;
};

struct SandboxConfig {
  std::string id;
  std::string name;
  std::string hostname;
  uint32_t cpus = 1;
  uint64_t disk_bandwidth = 0;  // bytes a second of each disk; 0: no limit
  uint64_t disk_iops = 0;       // requests a second of each disk; 0: no limit
  uint64_t watchdog_ms = 0;     // end a guest whose agent has not answered for so long; 0: never
  std::string
      kernel_console;  // "hvc0" for the tuned kernel, "ttyS0" where the console driver is a module
  std::string kernel_arguments;  // appended to the kernel command line
  uint64_t boot_timeout_ms = 60'000;
  // Defaults of every exec: a request's own values win.
  std::vector<std::pair<std::string, std::string>> env;
  std::string workdir;
  std::string user;
  std::optional<HealthCheck> health;  // nothing: none is run
  Profile profile = Profile::Dev;
  uint8_t stop_signal = SIGTERM;  // asks commands to end when the sandbox does
  // Bounds on every exec: a request may ask for less, never for more. 0: none.
  uint64_t exec_timeout_ms = 0;
  uint64_t exec_output = 0;  // bytes
  uint32_t exec_pids = 0;
  // The sandbox ends so long after its start, and after so long without use. 0: never.
  uint64_t ttl_ms = 0;
  uint64_t idle_timeout_ms = 0;
  AuditConfig audit;
  std::optional<NetworkConfig> network;  // nothing: no network card
  std::string kept_path;  // where the kept disk is in the guest; empty: there is none
  bool secrets = false;   // there are some: they follow in a message of their own (secrets.h)

  Bytes encode() const;
  static std::optional<SandboxConfig> decode(ByteView data);
};

}
