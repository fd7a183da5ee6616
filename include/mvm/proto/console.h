#pragma once
// A sandbox's console, for whoever sits at it (`mvm console`).

#include <optional>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/proto/frame.h"

namespace mvm::proto {

// With a descriptor, one end of a Unix stream socket: the console's output comes out of the other
// end from now on, and what goes into it is typed. One sits there at a time; who comes later has
// it, and the socket of who sat there before ends. Without a descriptor the console just changes
// its size. End ok, no result.
inline constexpr std::string_view kSandboxConsoleVerb = "sandbox.console";
struct ConsoleRequest {
  TerminalSize size;  // 0x0: as it is
  bool operator==(const ConsoleRequest&) const = default;

  Bytes encode() const;
  static std::optional<ConsoleRequest> decode(ByteView payload) noexcept;
};

}
