#pragma once
// What a kernel finds in memory when it starts, by PVH (Xen docs/misc/pvh.pandoc) or the 64-bit
// boot protocol (Linux Documentation/arch/x86/boot.rst), and the state of the vCPU that starts it.

#include <string_view>

#include "mvm/kvm/kvm.h"
#include "mvm/kvm/loader.h"

namespace mvm::kvm {

// Writes command line, memory map and the protocol's structures. `rsdp` is where the ACPI tables
// start. Throws Error{Invalid} when the command line is too long.
Vcpu::Entry write_boot_data(const memory::GuestMemory& memory, const LoadedKernel& kernel,
                            LoadedInitrd initrd, std::string_view command_line, uint64_t rsdp);

}
