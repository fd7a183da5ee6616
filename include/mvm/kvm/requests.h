#pragma once

#include <cstdint>

namespace mvm::kvm {

// KVM_RUN, for the system call filter of a vCPU thread: linux/kvm.h itself stays inside this
// module.
inline constexpr uint32_t kRunRequest = 0xae80;

}
