#pragma once
// Copying files and trees between this host and a sandbox, over a Connection. The rules of cp -r:
// into an existing directory, otherwise to the name given; directories merge, files are replaced
// whole. Modes and times are kept, links stay links. After any error the connection is closed.

#include <functional>
#include <string>

#include "mvm/agent/connection.h"
#include "mvm/agent/tree.h"

namespace mvm::agent {

// A copy takes as long as it takes; it fails when the sandbox takes and gives nothing for so long.
inline constexpr Milliseconds kStallLimit{60'000};

struct CopyWatch {
  std::function<void(uint64_t bytes)> progress;       // content copied so far
  std::function<void(const std::string& text)> note;  // something was left out, and why
  Limit stall = kStallLimit;
};

struct PutOptions {
  bool follow = false;           // when `local` is a link: what it points to
  std::string user;              // owner of what is written, "name" or "uid[:gid]"; empty: root
  bool archive = false;          // owners as here, set-id bits too
  bool make_parents = false;     // missing directories above the destination
  std::optional<TreeView> view;  // what of it, and as what
  CopyWatch watch;
};
// What the sandbox says it wrote, and what was skipped here. Partial trees remain after an error,
// partial files never do. The errors of Connection and TreeReader.
TreeCounts put(Connection& connection, const std::string& local, const std::string& remote,
               const PutOptions& options);

struct GetOptions {
  bool follow = false;
  bool make_parents = false;
  TreeWriteOptions write;
  CopyWatch watch;
};
// What was written here, and what the sandbox says it skipped. The errors of Connection and
// TreeWriter.
TreeCounts get(Connection& connection, const std::string& remote, const std::string& local,
               const GetOptions& options);

}
