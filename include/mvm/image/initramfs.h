#pragma once
// The universal initramfs: the guest agent as /init, and the modules its kernel needs.
//
//   /init  /dev/console  /dev /proc /sys /run /tmp /mnt /newroot  /lib/modules/<n>.ko /modules.list
//
// A newc cpio archive (Documentation/driver-api/early-userspace/buffer-format.rst), uncompressed:
// unpacking is part of every boot. The same input gives the same bytes.

#include <span>
#include <string>

#include "mvm/base/bytes.h"
#include "mvm/image/kernel.h"
#include "mvm/store/paths.h"

namespace mvm::image {

// The guest agent's binary, which outlives this, and its digest, which takes longer than all the
// rest of finding an initramfs that is there already.
class AgentBinary {
 public:
  explicit AgentBinary(ByteView bytes);
  ByteView bytes() const noexcept { return bytes_; }
  const std::string& digest() const noexcept { return digest_; }

 private:
  ByteView bytes_;
  std::string digest_;
};

struct ModuleFile {
  std::string name;  // plain file name, "virtio_mmio.ko"
  ByteView content;
};

// Modules go to /lib/modules/<name>; /modules.list holds their paths in the order given, a line
// each.
Bytes build_initramfs(ByteView agent, std::span<const ModuleFile> modules);

// The initramfs for this agent and kernel, built once and kept as data/initramfs/<key>.cpio, key
// being a digest of what goes in. Returns its path. Callers at the same time are fine.
std::string ensure_initramfs(const store::Paths& paths, const AgentBinary& agent,
                             const KernelBundle& kernel);

}
