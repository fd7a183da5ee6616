#pragma once
// What a machine is built on before it is known whose it is: its memory, with the kernel and the
// initramfs in it. The first message to a new sandbox process, and from that to its monitor; what
// makes the machine one sandbox's follows (sandbox_config.h, monitor.h).

#include <cstddef>
#include <cstdint>
#include <optional>

#include "mvm/base/bytes.h"

namespace mvm::proto {

// The descriptor that messages arrive on, in the sandbox and in the monitor process.
inline constexpr int kConfigFd = 3;
inline constexpr size_t kMaxBaseMessage = 1024;

// The descriptors that come with it, in this order.
enum class BaseFd : size_t {
  First,      // for the sandbox process the monitor's program; for the monitor /dev/kvm
  Kernel,     // kernel image, read-only
  Initramfs,  // read-only
  Count,
};

struct MachineBase {
  uint64_t memory = 0;      // bytes, at least 1 MiB
  bool huge_pages = false;  // from the host's reserve of 2 MiB pages
  // Nobody has asked for it yet: there is time to touch the memory that every boot does.
  bool spare = false;

  Bytes encode() const;
  static std::optional<MachineBase> decode(ByteView data);
  bool operator==(const MachineBase&) const = default;
};

}
