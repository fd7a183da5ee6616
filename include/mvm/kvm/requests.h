#pragma once

#include <cstdint>

namespace mvm::kvm {

// For the system call filters of the monitor's threads: linux/kvm.h itself stays inside this
// module.
inline constexpr uint32_t kRunRequest = 0xae80;            // KVM_RUN
inline constexpr uint32_t kInterruptRequest = 0x4008ae61;  // KVM_IRQ_LINE

}
