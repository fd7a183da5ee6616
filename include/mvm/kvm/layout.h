#pragma once
// Where things are in guest physical memory. The values are those that other monitors use, so
// kernels have met them.

#include <array>
#include <cstdint>

#include "mvm/memory/guest_memory.h"

namespace mvm::kvm::layout {

struct Area {
  uint64_t start;
  uint64_t size;
  constexpr uint64_t end() const { return start + size; }
};

inline constexpr Area kGdt = {0x500, 0x100};
inline constexpr Area kPageTables = {
    0x9000, 0x6000};  // one PML4, one PDPT, four page directories: 4 GiB mapped
inline constexpr Area kStartInfo = {0x6000, 0x1000};  // PVH start_info, module list, memory map
inline constexpr Area kZeroPage = {0x7000, 0x1000};   // struct boot_params
inline constexpr Area kCommandLine = {0x20000, 0x800};
inline constexpr Area kAcpi = {0xe0000,
                               0x20000};  // the RSDP at its start, where a kernel searches for it
inline constexpr uint64_t kLowMemoryEnd = 0x9fc00;  // usable memory below 1 MiB ends here
inline constexpr uint64_t kHighMemoryStart = 0x10'0000;

// In the gap between 3 and 4 GiB.
inline constexpr uint64_t kMmioStart = 0xd000'0000;  // virtio-mmio windows, 4 KiB each
inline constexpr uint64_t kIoApic = 0xfec0'0000;
inline constexpr uint64_t kLocalApic = 0xfee0'0000;
inline constexpr uint64_t kIdentityMap = 0xfffb'c000;  // a page that KVM needs on some processors
inline constexpr uint64_t kTss = 0xfffb'd000;          // three pages, the same

// APIC ids are 8 bits in the tables that list CPUs, and 255 means all.
inline constexpr uint32_t kMaxCpus = 254;

// Interrupt lines: pins of the I/O APIC. Below 5 are the legacy ones.
inline constexpr uint32_t kIoApicPins = 24;
inline constexpr uint32_t kFirstGsi = 5;
inline constexpr uint32_t kSerialGsi = 4;
inline constexpr uint32_t kAcpiGsi = 9;

// Ports.
inline constexpr uint16_t kSerialPort = 0x3f8;
inline constexpr uint16_t kPvpanicPort = 0x505;
inline constexpr uint16_t kSleepPort = 0x600;  // FADT sleep control register
inline constexpr uint16_t kSleepStatusPort = 0x601;
inline constexpr uint16_t kResetPort = 0x602;  // FADT reset register
inline constexpr uint16_t kI8042CommandPort = 0x64;

constexpr bool disjoint() {
  constexpr std::array<Area, 6> kAreas = {kGdt,        kStartInfo,   kZeroPage,
                                          kPageTables, kCommandLine, kAcpi};
  for (size_t i = 0; i + 1 < kAreas.size(); ++i)
    if (kAreas[i].end() > kAreas[i + 1].start) return false;
  return kCommandLine.end() <= kLowMemoryEnd && kAcpi.end() <= kHighMemoryStart;
}
static_assert(disjoint(), "areas below 1 MiB overlap or are out of order");
static_assert(kMmioStart >= memory::kMmioGapStart && kTss + 0x3000 <= memory::kMmioGapEnd);

}
