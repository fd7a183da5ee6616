#pragma once
// What keeps the agent able to answer while the sandbox's commands take all they can get.
//
// Theory of operation. Everything a command starts lives below one cgroup, whose limits of memory
// and processes stay under the machine's: what is left over is the agent's and the kernel's. So a
// command that eats all memory meets the kernel's killer inside the commands' share, and a fork
// bomb fails to fork while the agent still can. Processor time is shared by group, the agent being
// a peer of all commands together; it also has the better priority, and its memory is never paged
// out. A sandbox's root can undo all of this. It then makes its own sandbox deaf and nobody else's.

#include <cstdint>
#include <string>

namespace mvm::guest {

// The share of the commands.
struct CommandShare {
  uint64_t memory = 0;          // bytes; 0: a machine too small to share is shared as it can be
  uint64_t processes = 0;       // of all commands together
  uint64_t processes_each = 0;  // of one that brings no limit: others can still start
};
// Of a machine with so much memory left after its start, and at most so many threads
// (kernel.threads-max).
CommandShare command_share(uint64_t available_memory, uint64_t max_threads);

// Priority, memory lock and place in the order of the kernel's memory killer. For PID 1.
void guard_self();
// Makes the commands' cgroup with its limits, and returns its share. What the kernel lacks is said
// on the console and done without.
CommandShare guard_from_commands(const std::string& cgroup);

}
