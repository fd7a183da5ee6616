#pragma once
// What the sandbox process and its jailed child, the monitor, say to each other over one SEQPACKET
// socket (descriptor 3 of the monitor). The first message is a MachineBase (machine_base.h), the
// second a MonitorConfig with the descriptors of MonitorFd; then requests one way and events the
// other. The monitor touches guest memory, so the sandbox process treats every event as hostile.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/base/ip.h"
#include "mvm/proto/frame.h"
#include "mvm/proto/memory_use.h"

namespace mvm::proto {

inline constexpr size_t kMaxMonitorMessage = 64 * 1024;

enum class MonitorFd : size_t {
  ConsoleLog,  // where console and serial output go
  Root,        // first disk, read-only
  Overlay,     // second disk, writable
  KeptDisk,    // third disk, writable; there only when the configuration has one
  Tap,         // the guest's link; there only when the configuration has a network card
  Count,
};

// The guest's network card: whose frames it may send.
struct MonitorNic {
  std::array<uint8_t, 6> mac{};
  IpAddress v4;
  IpAddress v6 = IpAddress(IpAddress::V6{});
  uint16_t mtu = 1500;      // 1280 to 65520
  uint32_t beginnings = 0;  // frames a second that begin something (virtio::begins); 0: no limit
  bool operator==(const MonitorNic&) const = default;
};

inline constexpr uint32_t kMaxMachineCpus = 32;

struct MonitorConfig {
  uint32_t cpus = 1;  // 1 to kMaxMachineCpus; anything else does not decode
  std::string cmdline;
  bool serial = false;  // describe and probe a UART at 0x3f8 (COM1)
  bool kept_disk = false;
  // For each disk; 0 is no limit.
  uint64_t disk_bandwidth = 0;  // bytes a second, read and written together
  uint64_t disk_iops = 0;       // requests a second
  std::optional<MonitorNic> nic;

  Bytes encode() const;
  static std::optional<MonitorConfig> decode(ByteView data);
};

enum class MonitorRequestKind : uint8_t {
  Connect,  // one descriptor: a stream to `port` of the guest
  Accept,   // one descriptor: answers GuestConnect `stream`
  Refuse,   // answers GuestConnect `stream`
  Stats,    // asks for a Stats event
  Stop,     // end at once
  Memory,   // asks for a Memory event; `balloon` sets the balloon's target before
  Console,  // the console has `terminal`'s size from now on; with a descriptor, a stream socket,
            // who holds the other end of that sits at it, and nobody else any more
};

struct MonitorRequest {
  MonitorRequestKind kind = MonitorRequestKind::Stop;
  uint32_t port = 0;
  uint64_t stream = 0;
  bool announce =
      false;  // of Connect: write "OK <port>\n" to the stream once the guest has accepted
  std::optional<uint64_t> balloon;  // of Memory: bytes
  TerminalSize terminal;            // of Console; 0x0: as it is

  Bytes encode() const;
  static std::optional<MonitorRequest> decode(ByteView data);
};

// Why a machine ended.
enum class EndCause : uint8_t { PoweredOff, Rebooted, Panicked, Stopped, Failed };

enum class MonitorEventKind : uint8_t {
  Running,       // the first vCPU is about to run
  GuestConnect,  // the guest asks for a stream to host port `port`; answer with Accept or Refuse
  Stats,         // `counters`
  Ended,         // the last event: `cause` and `detail`
  Memory,        // `memory`: one answer for all Memory requests before it
};

struct MonitorEvent {
  MonitorEventKind kind = MonitorEventKind::Running;
  uint32_t port = 0;
  uint64_t stream = 0;
  EndCause cause = EndCause::Failed;
  std::string detail;
  std::vector<std::pair<std::string, uint64_t>> counters;
  MemoryUse memory;

  Bytes encode() const;
  static std::optional<MonitorEvent> decode(ByteView data);
};

}
