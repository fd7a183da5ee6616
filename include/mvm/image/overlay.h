#pragma once
// The writable disk of a sandbox: a sparse file with a ready, empty ext4 in it, which the guest
// lays over the read-only image.

#include <cstdint>
#include <string>

#include "mvm/store/paths.h"

namespace mvm::image {

inline constexpr uint64_t kMinOverlay = uint64_t{16} << 20;
inline constexpr uint64_t kMaxOverlay = uint64_t{4} << 40;

// Makes `destination` (which must not exist, mode 0600) an overlay disk of `size` bytes, rounded up
// to MiB. The file system is made once for each size and kept as a template in data/overlay/; each
// disk is a copy of the template's few written blocks: for 2 GiB on ext4, 0.2 ms for a copy against
// 20 to 40 ms for a run of mkfs.ext4. Throws Error{Invalid}
// for a size out of bounds, Error{Unavailable} when the host has no mkfs.ext4.
void create_overlay(const store::Paths& paths, uint64_t size, const std::string& destination);

// Makes the template now, so that the first sandbox of this size does not wait for it.
void prepare_overlay(const store::Paths& paths, uint64_t size);

}
