#pragma once
// The disk that outlives the sandbox, mounted over a folder of the root. A new one is filled with
// what the image has in that folder first, so that nothing of the image is hidden by an empty disk;
// afterwards the disk alone counts.

#include "settings.h"

namespace mvm::guest {

// In the root, when /dev and /run are there. Throws Error.
void mount_kept_disk(const KeptDisk& disk);

// Copies what is in the folder `from` into the folder `to`, which has nothing of these names:
// folders, files, links, with owners, modes and times. Of other kinds nothing is copied.
void copy_tree(int from, int to);

}
