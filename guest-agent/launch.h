#pragma once
// Starts one command: everything between the request and execve(2), in the order that the kernel's
// permission checks need. The child reports where it failed through a pipe that execve closes, so
// "started" and "could not be started, because" are told apart without guessing.

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

#include "mvm/base/error.h"
#include "mvm/base/expected.h"
#include "mvm/proto/control.h"
#include "mvm/proto/exec.h"
#include "mvm/sys/fd.h"

#include "passwd.h"
#include "process_tree.h"

namespace mvm::guest {

inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
inline constexpr size_t kMaxPathEntries = 256;

using Environment = std::vector<std::pair<std::string, std::string>>;

// What the command will see: `common`, PATH and the account's HOME, USER, LOGNAME and SHELL (and
// TERM for a terminal), then the request's own on top; with clear_env the request's alone.
Environment make_environment(const proto::ExecRequest& request, const Identity& identity,
                             const Environment& common);

// The files to try for argv[0]: itself when it has a slash, else one in each directory of PATH.
std::vector<std::string> candidates(const std::string& command, const Environment& env);

struct Launch {
  const proto::ExecRequest& request;
  Identity identity;
  bool switch_user = false;  // needs root; without it the command runs as the agent does
  rlimit open_files{};       // unless the request says; the agent's own is higher
  const ProcessTree& tree;
  const Environment& common;  // of all commands
  // The child's descriptors 0 to 2. With a terminal all three are its slave side.
  std::array<int, 3> standard{-1, -1, -1};
};

struct Launched {
  pid_t pid = -1;
  // Ends with nothing once the command runs; or says why it does not: read_failure().
  sys::Fd report;
};

// Forks; throws SystemError when not even that is possible. Returns before the command runs.
Launched launch(const Launch& what);

// What the report pipe holds once it is readable: nothing when the command has started, or why it
// has not. NotFound and Denied are the shell's 127 and 126.
std::optional<proto::ErrorReply> read_failure(int report, const proto::ExecRequest& request);

}
