#pragma once
// Readers of hostile sources: each walks its source once, streams file data into the writer and
// leaves the tree.

#include <map>
#include <string>

#include "mvm/image/erofs.h"
#include "mvm/image/import.h"
#include "mvm/image/tree.h"

namespace mvm::image {

// What was left out: a line for people -> how often.
using Notes = std::map<std::string, uint64_t>;

// Walks a directory without following symbolic links. Throws Error naming the path: Denied for what
// cannot be read, Conflict for a file that changed while it was read.
void read_directory(const std::string& path, const ImportOptions& options, const Progress& progress,
                    Tree& tree, ErofsWriter& writer, Notes& notes);

// Reads a tar archive (plain or compressed) from `fd`; `shown` names it in messages. Refused, with
// the entry's name: absolute paths, "..", names that are too long, parents that are no directories
// (a symbolic link among them), hard links to what is not there. A later entry replaces an earlier
// one of its path.
void read_tar(int fd, const std::string& shown, const ImportOptions& options,
              const Progress& progress, Tree& tree, ErofsWriter& writer, Notes& notes);

}
