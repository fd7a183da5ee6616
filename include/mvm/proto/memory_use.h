#pragma once
// How a guest stands with its memory: asked of the sandbox process, which asks the monitor, which
// asks the balloon's driver in the guest.

#include <cstdint>
#include <optional>
#include <string_view>

#include "mvm/base/bytes.h"

namespace mvm::proto {

// End ok with MemoryUse.
inline constexpr std::string_view kSandboxMemoryVerb = "sandbox.memory";
struct MemoryRequest {
  // Sets how much the guest is to give up, in bytes; it does so as far as it can, in its own time.
  std::optional<uint64_t> balloon;
  bool operator==(const MemoryRequest&) const = default;

  Bytes encode() const;
  static std::optional<MemoryRequest> decode(ByteView payload) noexcept;
};

// In bytes. What is absent is not known. Of the first group all is the guest's word.
struct MemoryUse {
  std::optional<uint64_t> guest_total;
  std::optional<uint64_t> guest_free;
  std::optional<uint64_t> guest_available;
  std::optional<uint64_t> guest_caches;
  uint64_t balloon = 0;         // given up, as the driver says
  uint64_t balloon_target = 0;  // what it is to give up
  uint64_t released = 0;        // given back to the host since the start, by balloon and reports
  bool operator==(const MemoryUse&) const = default;

  Bytes encode() const;
  static std::optional<MemoryUse> decode(ByteView item) noexcept;
};

}
