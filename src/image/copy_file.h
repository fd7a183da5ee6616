#pragma once

#include <string>

namespace mvm::image {

// Copies a regular file to `target`, which must not exist (mode 0600): by reference where the file
// system can (FICLONE), else its data and not its holes. Nothing is left behind on failure.
void copy_file(const std::string& source, const std::string& target);

}
