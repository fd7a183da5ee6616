#pragma once
// How the two processes of a sandbox shut themselves in, before the guest's first instruction. Four
// stages, in this order; each names what must be so before it and what is so after it, checks both,
// and throws rather than go on with less than it promises.
//
//   1  set_apart()          in the parent: the child starts in namespaces of its own
//   2  leave_file_system()  in the process: its root is empty and read-only
//   3  give_up_rights()     in the process, before it has other threads: no capability, Landlock,
//                           limits
//   4  confine_thread()     in each thread (mvm/jail/seccomp.h): only the calls it needs
//
// What a process needs afterwards is opened before stage 2.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "mvm/sys/process.h"

namespace mvm::jail {

// What this host lets us set a process apart by.
enum class Isolation {
  Full,         // user, mount, pid, ipc, uts (and network) namespaces
  WithoutUser,  // the same but the user's: for root where user namespaces are forbidden
  None,         // no namespaces: stages 3 and 4 alone
};
std::string_view isolation_name(Isolation isolation);  // "full", "without-user", "none"
std::optional<Isolation> isolation_from_name(std::string_view name);

struct HostSupport {
  Isolation isolation = Isolation::None;
  std::string missing;   // empty when nothing is
  std::string way_out;   // one line, empty when nothing is missing
  int landlock_abi = 0;  // 0: not there
};
// Found by trying, in a child that goes through stages 1 and 2. Takes some milliseconds.
HostSupport probe_host();
// What to do where user namespaces are not to be had: the setting known to forbid them that is in
// force here, by distribution. `root` goes in front of the paths that are read.
std::string user_namespace_way_out(const std::string& root);

// ---- stage 1
enum class Network { Shared, Empty };
// Before: `options` describe the child. After: a child spawned with them is process 1 of its pid
// namespace, in mount, ipc and uts namespaces (with Network::Empty also a network namespace without
// a device that is up) and, with Isolation::Full, in a user namespace where our own user and group
// are the only ones, so that its capabilities reach nothing of the host's. It still sees the host's
// files. Nobody in it outlives it.
void set_apart(sys::SpawnOptions& options, Isolation isolation, Network network);

// ---- stage 2
// Before: the process was started by stage 1 with the same `isolation`, and is single-threaded.
// After: "/" is an empty, read-only tmpfs and the working directory; no path leads to a file of the
// host. Each descriptor of `kept`, an open directory, stands for a mount of that directory alone
// (same number, same content): ".." does not lead out of it, symbolic links in it are not followed.
// With Isolation::None only the working directory changes, to "/".
void leave_file_system(Isolation isolation, std::span<const int> kept);

// ---- stage 3
struct Limits {
  uint64_t files = 0;                 // RLIMIT_NOFILE, both limits; never raised above the hard one
  uint64_t file_size = 0;             // RLIMIT_FSIZE, bytes
  uint64_t locked = 0;                // RLIMIT_MEMLOCK, bytes
  std::optional<uint64_t> processes;  // RLIMIT_NPROC; for a process that starts no more threads
};
struct Rights {
  Limits limits;
  // Open directories in which files may be made, written, renamed and removed; nowhere else.
  std::span<const int> writable;
  // Open directories in which new files may be made and written, and none removed or renamed.
  std::span<const int> appendable;
  // May it signal processes that it started before? (Landlock would refuse that from ABI 6.)
  bool signals_children = false;
  // May it open TCP connections to other machines? (Landlock refuses that from ABI 4.)
  bool dials = false;
};
// Before: stage 2, one thread, everything opened. After: no capability in any set and none to be
// had by exec; no_new_privs; no core dump, not dumpable; the limits hold and cannot be raised;
// Landlock, where the kernel has it, refuses every access by name that its ABI knows, except below
// `writable`, and TCP, abstract sockets and signals to others where its ABI knows them.
void give_up_rights(const Rights& rights);
// For a process that learns only after stage 3 how large its files may become. After: no larger.
void limit_file_size(uint64_t bytes);
// For a process that starts threads of its own between stages 3 and 4. After: it can start no
// process and no thread any more (RLIMIT_NPROC 0).
void forbid_processes();

}
