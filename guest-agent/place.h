#pragma once
// From a place (proto/files.h) to descriptors. Whatever is looked up is looked up once, by the
// kernel, under the rules of the place; what follows works on the descriptor, so nobody can swap
// what is behind a name between a check and its use.

#include <string>

#include "mvm/proto/files.h"
#include "mvm/sys/fd.h"

namespace mvm::guest {

// For messages.
std::string shown(const proto::FilePlace& place);

// openat2(2) with O_CLOEXEC | O_NOCTTY | O_NONBLOCK added: a pipe in the place of a file does not
// stop the agent. Throws SystemError, or Error{Denied} for a path that leads out of the root.
sys::Fd open_place(const proto::FilePlace& place, int flags, unsigned mode = 0);

// The directory that holds the last component, and that component: a name, never "." or "..".
struct Leaf {
  sys::Fd directory;
  std::string name;
};
Leaf leaf_of(const proto::FilePlace& place);

proto::FileStatus status_of(int fd);  // of what is open, by any flags
proto::FileStatus status_at(int directory, const std::string& name);  // links not followed

// Unforeseeable, so that nobody in the sandbox can be there first.
std::string temporary_name();

}
