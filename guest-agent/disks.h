#pragma once
// Disks of the sandbox's own: the writable layer, and one that outlives it. Both are ext4.

#include <string>

namespace mvm::guest {

// Returns when there is such a device. Throws Error{NotFound} when none comes.
void wait_for_device(const std::string& path);

// Mounts the ext4 on `device` at `place`, as large as the device is. Throws SystemError.
void mount_writable(const std::string& device, const char* place);

}
