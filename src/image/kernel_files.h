#pragma once
// What was noted of an installed bundle's files: .files.json in its directory, each file's path,
// size and SHA-256. A disk may lose what is in a file, and a guest must not be started from what is
// left.

#include <string>

#include "mvm/image/kernel.h"
#include "mvm/sys/fd.h"

namespace mvm::image {

// Throws Error{Invalid}: a bundle is damaged, how, and what the next step is.
[[noreturn]] void refuse_damaged_kernel(const std::string& why);

// A file of the bundle in `directory`, by a word of whoever made the bundle. Throws Error{Invalid}
// unless that is relative and stays inside, and Error{NotFound} where no regular file is.
sys::Fd open_bundle_file(const std::string& directory, const std::string& below);

// Syncs the files of a bundle that was copied to `directory`, and takes a note of them. `source` is
// what it was copied from.
void seal_bundle(const std::string& directory, const KernelBundle& source);
// Throws where a file has not the size that was noted. A directory without a note passes.
void check_sizes(const std::string& directory);

}
