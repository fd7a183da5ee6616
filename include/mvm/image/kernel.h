#pragma once
// Guest kernels: a bundle is a directory with a kernel image and the modules that an initramfs for
// it has to load, described by bundle.json:
//   {"name": "tuned-6.1", "image": "vmlinux", "modules": ["modules/virtio_mmio.ko", ...]}

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/store/paths.h"

namespace mvm::image {

inline constexpr size_t kMaxModules = 256;
inline constexpr size_t kMaxModuleSize = size_t{64} << 20;

struct KernelBundle {
  std::string name;
  std::string directory;             // empty for a kernel image given by its path
  std::string image;                 // absolute path of the vmlinux or bzImage
  std::vector<std::string> modules;  // absolute paths, in load order
};

// Reads directory/bundle.json. Every path in it is relative and stays inside, and every file is
// there, is not empty, and in an installed bundle has the size that it was installed with; else
// Error{Invalid} or Error{NotFound} naming it.
KernelBundle load_bundle(const std::string& directory);
// Reads all of an installed bundle. Throws Error{Invalid} with the next step when a file is not
// what was installed. What was installed by an mvm that took no note passes.
void verify_bundle(const KernelBundle& bundle);

struct InstalledKernel {
  KernelBundle bundle;  // its name alone, when there is a problem
  bool is_default = false;
  std::string problem;  // why it cannot be used
};
// What data/kernels holds, by name.
std::vector<InstalledKernel> list_kernels(const store::Paths& paths);

// `wanted` (or else $MVM_KERNEL) is the name of an installed kernel, or a path (it has a '/') of a
// bundle or a kernel image. Without either: data/kernels/default, else the tuned one, else any.
// Error{NotFound} says how to get one.
KernelBundle resolve_kernel(const store::Paths& paths, std::optional<std::string_view> wanted);

// Copies a bundle into data/kernels/<its name>, replacing one of that name at once, and makes it
// the default when there is none, or when `make_default`.
KernelBundle install_kernel(const store::Paths& paths, const std::string& directory,
                            bool make_default = false);
// The same for one that came with an image: installed as <its name>-<digest of its files>, so that
// it takes no other kernel's place, and never the default.
KernelBundle install_image_kernel(const store::Paths& paths, const std::string& directory);

// Removes an installed kernel; a default that points at it goes first. Error{NotFound} when there
// is none of that name. Machines that run it have it open and go on.
void remove_kernel(const store::Paths& paths, std::string_view name);

}
