#pragma once
// Why a sandbox ended: one enum from the sandbox process through exit.json, the database and the
// API to the exit code of `mvm run`. It travels and is kept by name, so its order means nothing.

#include <cstdint>
#include <optional>
#include <string_view>

namespace mvm::proto {

enum class EndReason : uint8_t {
  Stopped,      // asked to
  Exited,       // the guest powered off
  Rebooted,     // the guest asked for a reboot
  Panic,        // the guest's kernel gave up
  Killed,       // asked to, without ceremony
  Crashed,      // the sandbox process or its monitor died
  StartFailed,  // it never became ready
  HostFault,    // the host lost something it needs
  TimeLimit,    // its time to live was over
  IdleTimeout,  // nobody used it for as long as it may idle
  OutOfMemory,  // the guest's kernel had no memory left and gave up
};
std::string_view end_reason_name(EndReason reason);  // "stopped", "start_failed", ...
std::optional<EndReason> end_reason_from_name(std::string_view name);

}
