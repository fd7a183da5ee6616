#pragma once
// Kernel images into guest memory. The file is hostile: every header, note and segment is checked
// against the file, the guest's memory and fixed limits before it is believed, and no loop runs
// longer than a limit here says.
//
// ELF (vmlinux): entered by PVH when it has the note XEN_ELFNOTE_PHYS32_ENTRY, else by the 64-bit
// boot protocol at e_entry. bzImage: entered at its 64-bit entry point (Linux
// Documentation/arch/x86/boot.rst); kernels without one are refused.

#include <cstdint>
#include <optional>

#include "mvm/base/bytes.h"
#include "mvm/memory/guest_memory.h"

namespace mvm::kvm {

inline constexpr uint32_t kMaxProgramHeaders = 64;
inline constexpr uint64_t kMaxNotes = 64 * 1024;
inline constexpr uint64_t kMaxInitrd = uint64_t{1} << 30;

enum class BootProtocol { Pvh, Linux64 };

struct LoadedKernel {
  BootProtocol protocol = BootProtocol::Pvh;
  uint64_t entry = 0;  // physical address of the first instruction
  uint64_t end = 0;  // first byte behind everything that the kernel was loaded to or says it needs
  Bytes setup_header;  // bzImage: what belongs at 0x1f1 of the zero page
};

// Throws Error{Invalid} saying what is wrong with the image, Error{Exhausted} when it does not fit
// into the memory.
LoadedKernel load_kernel(const memory::GuestMemory& memory, int file);

struct LoadedInitrd {
  uint64_t address = 0;
  uint64_t size = 0;
};
// As high as it goes below the gap, clear of the kernel. Throws like load_kernel.
LoadedInitrd load_initrd(const memory::GuestMemory& memory, int file, uint64_t kernel_end);

}
