#pragma once
// Which CPU the guest sees: the host's, as far as KVM can give it, with the topology of the machine
// we make.

#include <vector>

#include "mvm/kvm/kvm.h"

namespace mvm::kvm {

struct Topology {
  uint32_t cpu = 0;   // this vCPU; its APIC id is the same number
  uint32_t cpus = 1;  // one package, one thread a core
};

// Pure: KVM's list in, the guest's list out, without what hidden_features.cc names. `tsc_khz` is
// how fast the vCPU's TSC runs, 0 when that is not known.
std::vector<CpuidEntry> guest_cpuid(std::vector<CpuidEntry> supported, Topology topology,
                                    uint32_t tsc_khz = 0);

// MSRs that differ from their reset value at the first instruction, in the order they are set,
// after CPUID (since Linux 6.13 MSRs that CPUID does not announce read as zero and are refused).
std::vector<std::pair<uint32_t, uint64_t>> boot_msrs();

}
