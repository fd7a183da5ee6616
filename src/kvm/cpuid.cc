#include "mvm/kvm/cpuid.h"

#include <algorithm>
#include <bit>

#include "mvm/base/error.h"
#include "mvm/kvm/layout.h"

#include "hidden_features.h"

namespace mvm::kvm {

// Replaces bits [low, low + width) of `word`.
static void set_field(uint32_t& word, unsigned low, unsigned width, uint32_t value) {
  const uint32_t mask = ((1U << width) - 1) << low;
  word = (word & ~mask) | ((value << low) & mask);
}

// Shift that makes room for the numbers below `count`.
static uint32_t bits_for(uint32_t count) {
  return static_cast<uint32_t>(std::bit_width(count - 1));
}

// The levels of leaf 0xb and 0x1f (Intel SDM volume 2, CPUID): threads of a core, cores of the
// package, and the end of the list. Made anew, because KVM gives the host's levels, or since Linux
// 6.1 one that says nothing, by which every CPU would be a package of its own.
static void add_topology(std::vector<CpuidEntry>& list, uint32_t function, Topology topology) {
  constexpr uint32_t kThread = 1U << 8, kCore = 2U << 8;
  CpuidEntry level{.function = function, .flags = kCpuidSignificantIndex, .edx = topology.cpu};
  level.ebx = 1;
  level.ecx = kThread;
  list.push_back(level);
  level.index = 1;
  level.eax = bits_for(topology.cpus);
  level.ebx = topology.cpus;
  level.ecx = kCore | 1;
  list.push_back(level);
  level.index = 2;
  level.eax = level.ebx = 0;
  level.ecx = 2;
  list.push_back(level);
}

static void adapt(CpuidEntry& entry, Topology topology) {
  constexpr uint32_t kHyperThreading = 1U << 28;  // leaf 1 edx: the count in ebx means something
  constexpr uint32_t kTscDeadline =
      1U << 24;  // leaf 1 ecx: KVM emulates it; the timer that needs no calibration
  constexpr uint32_t kHypervisor = 1U << 31;  // leaf 1 ecx: look for leaf 0x40000000
  constexpr uint32_t kClearFlushUnits = 8;    // leaf 1 ebx: cache line in units of 8 bytes
  switch (entry.function) {
    case 1:
      set_field(entry.ebx, 24, 8, topology.cpu);
      set_field(entry.ebx, 16, 8, topology.cpus);
      set_field(entry.ebx, 8, 8, kClearFlushUnits);
      entry.ecx |= kHypervisor | kTscDeadline;
      entry.edx = topology.cpus > 1 ? entry.edx | kHyperThreading : entry.edx & ~kHyperThreading;
      break;
    case 4: {
      // Intel cache leaves: the last level is shared by all, the others by nobody.
      const uint32_t level = (entry.eax >> 5) & 7;
      set_field(entry.eax, 14, 12, level >= 3 ? topology.cpus - 1 : 0);
      set_field(entry.eax, 26, 6, topology.cpus - 1);
      break;
    }
    case 0x8000'0008:
      set_field(entry.ecx, 0, 8, topology.cpus - 1);
      set_field(entry.ecx, 12, 4, bits_for(topology.cpus));
      break;
    case 0x8000'001d: {
      // AMD cache leaves, as leaf 4.
      const uint32_t level = (entry.eax >> 5) & 7;
      set_field(entry.eax, 14, 12, level >= 3 ? topology.cpus - 1 : 0);
      break;
    }
    case 0x8000'0026:
      // A longer description of the host's levels: a first level of no kind ends it.
      entry.eax = entry.ebx = entry.ecx = entry.edx = 0;
      break;
    case 0x8000'001e:
      entry.eax = topology.cpu;
      set_field(entry.ebx, 0, 8, topology.cpu);  // core id
      set_field(entry.ebx, 8, 8, 0);             // threads a core, less one
      entry.ecx = 0;                             // node 0 of one
      break;
    default:
      break;
  }
}

static CpuidEntry* find(std::vector<CpuidEntry>& list, uint32_t function) {
  const auto entry = std::find_if(list.begin(), list.end(),
                                  [&](const auto& each) { return each.function == function; });
  return entry == list.end() ? nullptr : &*entry;
}

// How fast TSC and local APIC timer run, in kHz, for a guest that would measure it otherwise: the
// leaf that VMware began and others took over. Only where the TSC is the same all the time. (Linux
// reads it from kvm-clock, which comes first for it. Leaf 0x15, Intel's own, stays as KVM gives
// it.)
static void add_timing(std::vector<CpuidEntry>& list, uint32_t tsc_khz) {
  constexpr uint32_t kHypervisorBase = 0x4000'0000, kTiming = kHypervisorBase + 0x10;
  constexpr uint32_t kPower = 0x8000'0007, kSteadyTsc = 1U << 8;
  constexpr uint32_t kApicTimerKhz = 1'000'000;  // KVM's local APIC counts nanoseconds
  CpuidEntry* base = find(list, kHypervisorBase);
  const CpuidEntry* power = find(list, kPower);
  if (tsc_khz == 0 || base == nullptr || power == nullptr || (power->edx & kSteadyTsc) == 0) return;
  base->eax = std::max(base->eax, kTiming);
  list.push_back({.function = kTiming, .eax = tsc_khz, .ebx = kApicTimerKhz});
}

std::vector<CpuidEntry> guest_cpuid(std::vector<CpuidEntry> supported, Topology topology,
                                    uint32_t tsc_khz) {
  MVM_ASSERT(topology.cpus >= 1 && topology.cpus <= layout::kMaxCpus &&
             topology.cpu < topology.cpus);
  for (auto& entry : supported) {
    hide_features(entry);
    adapt(entry, topology);
  }
  add_timing(supported, tsc_khz);
  for (const uint32_t function : {0xbU, 0x1fU}) {
    const auto of_function = [function](const auto& entry) { return entry.function == function; };
    if (std::erase_if(supported, of_function) > 0) add_topology(supported, function, topology);
  }
  return supported;
}

std::vector<std::pair<uint32_t, uint64_t>> boot_msrs() {
  constexpr uint32_t kMiscEnable = 0x1a0, kMtrrDefaultType = 0x2ff;
  constexpr uint64_t kFastStrings = 1, kMtrrEnable = 1 << 11, kWriteBack = 6;
  return {
      {kMiscEnable, kFastStrings},  // as firmware leaves it; without it the kernel avoids rep movs
      {kMtrrDefaultType,
       kMtrrEnable | kWriteBack},  // else some kernels take all memory for uncached
  };
}

}
