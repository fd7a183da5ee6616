#include "hidden_features.h"

#include <array>

namespace mvm::kvm {
namespace {

using Register = uint32_t CpuidEntry::*;

struct Hidden {
  uint32_t function;
  Register word;
  uint32_t bits;
  const char* reason;
};

constexpr uint32_t bit(unsigned number) { return 1U << number; }
constexpr uint32_t kAll = 0xffff'ffff;

constexpr const char* kNested =
    "nested virtualisation: the host's largest attack surface, for guests that run no guests";
constexpr const char* kCounters =
    "performance counters: they see the host's and other guests' use of the processor";
constexpr const char* kTracing =
    "branch tracing: state that is the host's, and that no snapshot carries";
constexpr const char* kEnclaves = "enclaves need memory that only the host can set aside";
constexpr const char* kEncrypted = "encrypted guests are made by the host, not by the guest";
constexpr const char* kTransactions =
    "transactions: a source of leaks (TAA), switched off by microcode on most hosts anyway";
constexpr const char* kPower = "power and heat are the host's to manage";
constexpr const char* kResources = "cache and bandwidth control are the host's to manage";
constexpr const char* kHostSide = "needs a part of the monitor that is not there";

// Function, register and bits as in Intel's SDM volume 2 (CPUID), AMD's APM volume 3 appendix E and
// Linux Documentation/virt/kvm/x86/cpuid.rst. Subleaves of a function are treated alike; no
// function with features in several subleaves is listed but 7, whose subleaf 0 alone has these.
constexpr auto kHidden = std::to_array<Hidden>({
    {1, &CpuidEntry::ecx, bit(5), kNested},                   // VMX
    {1, &CpuidEntry::ecx, bit(2) | bit(15), kCounters},       // DTES64, PDCM
    {1, &CpuidEntry::edx, bit(21), kCounters},                // DS
    {1, &CpuidEntry::ecx, bit(3) | bit(7) | bit(8), kPower},  // MONITOR, EIST, TM2
    {6, &CpuidEntry::eax, ~bit(2), kPower},                   // all but ARAT
    {6, &CpuidEntry::ebx, kAll, kPower},
    {6, &CpuidEntry::ecx, kAll, kPower},  // APERF, MPERF, EPB
    {6, &CpuidEntry::edx, kAll, kPower},
    {7, &CpuidEntry::ebx, bit(2), kEnclaves},                // SGX
    {7, &CpuidEntry::ebx, bit(4) | bit(11), kTransactions},  // HLE, RTM
    {7, &CpuidEntry::ebx, bit(12) | bit(15), kResources},    // RDT-M, RDT-A
    {7, &CpuidEntry::ebx, bit(25), kTracing},                // Intel PT
    {7, &CpuidEntry::ecx, bit(30), kEnclaves},               // SGX_LC
    {7, &CpuidEntry::edx, bit(19), kTracing},                // architectural LBR
    {0xa, &CpuidEntry::eax, kAll, kCounters},
    {0xa, &CpuidEntry::ebx, kAll, kCounters},
    {0xa, &CpuidEntry::ecx, kAll, kCounters},
    {0xa, &CpuidEntry::edx, kAll, kCounters},
    {0x12, &CpuidEntry::eax, kAll, kEnclaves},
    {0x12, &CpuidEntry::ebx, kAll, kEnclaves},
    {0x12, &CpuidEntry::ecx, kAll, kEnclaves},
    {0x12, &CpuidEntry::edx, kAll, kEnclaves},
    {0x14, &CpuidEntry::eax, kAll, kTracing},
    {0x14, &CpuidEntry::ebx, kAll, kTracing},
    {0x14, &CpuidEntry::ecx, kAll, kTracing},
    {0x4000'0001, &CpuidEntry::eax, bit(10), kNested},              // ASYNC_PF_VMEXIT
    {0x4000'0001, &CpuidEntry::eax, bit(16) | bit(17), kHostSide},  // MAP_GPA_RANGE, MIGRATION
    {0x8000'0001, &CpuidEntry::ecx, bit(2), kNested},               // SVM
    {0x8000'0001, &CpuidEntry::ecx, bit(10) | bit(15), kTracing},   // IBS, LWP
    {0x8000'0001, &CpuidEntry::ecx, bit(23) | bit(24) | bit(28), kCounters},  // core, NB, LLC
    {0x8000'0007, &CpuidEntry::eax, kAll, kPower},
    {0x8000'0007, &CpuidEntry::ebx, kAll, kPower},
    {0x8000'0007, &CpuidEntry::ecx, kAll, kPower},
    {0x8000'0007, &CpuidEntry::edx, ~bit(8), kPower},  // all but the steady TSC
    {0x8000'000a, &CpuidEntry::eax, kAll, kNested},
    {0x8000'000a, &CpuidEntry::ebx, kAll, kNested},
    {0x8000'000a, &CpuidEntry::ecx, kAll, kNested},
    {0x8000'000a, &CpuidEntry::edx, kAll, kNested},
    {0x8000'001b, &CpuidEntry::eax, kAll, kTracing},
    {0x8000'001f, &CpuidEntry::eax, kAll, kEncrypted},
    {0x8000'001f, &CpuidEntry::ebx, kAll, kEncrypted},
    {0x8000'001f, &CpuidEntry::ecx, kAll, kEncrypted},
    {0x8000'001f, &CpuidEntry::edx, kAll, kEncrypted},
    {0x8000'0022, &CpuidEntry::eax, kAll, kCounters},
    {0x8000'0022, &CpuidEntry::ebx, kAll, kCounters},
});

constexpr bool every_row_has_bits_and_a_reason() {
  for (const Hidden& row : kHidden)
    if (row.bits == 0 || row.reason == nullptr) return false;
  return true;
}
static_assert(every_row_has_bits_and_a_reason());

}

void hide_features(CpuidEntry& entry) noexcept {
  for (const Hidden& row : kHidden) {
    // Of 7 other subleaves have other meanings.
    const bool same = row.function == entry.function && (row.function != 7 || entry.index == 0);
    if (same) entry.*row.word &= ~row.bits;
  }
}

}
