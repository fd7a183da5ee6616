#pragma once
// From the initramfs to the sandbox's own root: what PID 1 does before it serves.

#include <string>

#include "mvm/sys/fd.h"

#include "settings.h"

namespace mvm::guest {

// The system once it is set up.
struct System {
  Settings settings;
  // The writable layer's file system, which is below the root and not visible in it; empty where
  // the layer is a tmpfs. Held to be made read-only at the end.
  sys::Fd hidden_root;
};

// Opens /dev/console as descriptors 0 to 2, so that there is somewhere to complain.
void open_console();
// One line on the console.
void say(const std::string& line);
[[noreturn]] void fatal(const std::string& why);

// Mounts, modules, disks, overlay, switch of the root, network loopback, hostname. Throws Error.
System set_up_system();

enum class PowerAction { Off, Reboot };
// The last call: file systems are written out, the machine ends.
[[noreturn]] void end_machine(PowerAction action, const System* system);

}
