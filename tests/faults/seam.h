#pragma once
// Every system call that mvm makes through the C library, in this test program: the linker sends
// them here first (-Wl,--wrap), SQLite's go through its own table. One of them, counted from when
// the seam was armed, fails as the kernel could make it fail, or is the process's last.
//
// The plan lies in memory that the test shares with the daemon process it watches.

#include <atomic>
#include <cstdint>
#include <initializer_list>

#include <sys/types.h>

namespace mvm::faults {

struct Plan {
  std::atomic<pid_t> victim;   // the process whose calls count; its children's do not
  std::atomic<int> countdown;  // the call that brings it to 0 is it; 0 and below: not armed
  std::atomic<int> error;      // errno to fail with; kKill: SIGKILL instead
  std::atomic<int> calls;      // counted since it was armed, for the curious
};
inline constexpr int kKill = -1;

// The shared plan, in a memory file that is inherited as `fd`.
Plan& map_plan(int fd);
// True when the call that asks is to fail, with errno set; `possible` are the errors that its
// manual page names. For a plan of another error the call does not count.
bool fails(std::initializer_list<int> possible);
// From now on the calls of this process are looked at, and count if the plan has no victim yet.
void watch_calls(Plan& plan);
// Those of SQLite too.
void watch_database();

}
