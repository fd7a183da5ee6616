// The CPU that the guest sees, from lists as KVM gives them.
#include "mvm/kvm/cpuid.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

namespace mvm::kvm {

static std::optional<CpuidEntry> find(const std::vector<CpuidEntry>& list, uint32_t function,
                                      uint32_t index = 0) {
  const auto entry = std::find_if(list.begin(), list.end(), [&](const auto& each) {
    return each.function == function && each.index == index;
  });
  return entry == list.end() ? std::nullopt : std::optional(*entry);
}

static CpuidEntry leaf(uint32_t function, uint32_t index = 0) {
  CpuidEntry entry;
  entry.function = function;
  entry.index = index;
  return entry;
}

// A processor of nothing but the leaves that matter here.
static std::vector<CpuidEntry> processor() {
  auto max = leaf(0);
  max.eax = 0x1f;
  auto features = leaf(1);
  features.ebx = 0xffff'ffff;
  features.ecx = 1U << 15;  // PDCM
  auto cache1 = leaf(4, 0);
  cache1.eax = 1U << 5 | 1;
  auto cache3 = leaf(4, 3);
  cache3.eax = 3U << 5 | 3;
  auto counters = leaf(0xa);
  counters.eax = counters.ebx = counters.ecx = counters.edx = 0x0808'0808;
  auto signature = leaf(0x4000'0000);
  signature.ebx = 0x4b4d'564b;
  auto extended = leaf(0x8000'0000);
  extended.eax = 0x8000'001e;
  auto brand = leaf(0x8000'0002);
  brand.eax = 0x6574'6e49;
  return {max,
          features,
          cache1,
          cache3,
          counters,
          leaf(0xb, 0),
          leaf(0x1f),
          signature,
          extended,
          brand,
          leaf(0x8000'0008),
          leaf(0x8000'001d, 3),
          leaf(0x8000'001e)};
}

TEST(Cpuid, GivesEachCpuItsApicId) {
  for (const uint32_t cpu : {0U, 1U, 7U}) {
    const auto list = guest_cpuid(processor(), {.cpu = cpu, .cpus = 8});
    EXPECT_EQ(find(list, 1)->ebx >> 24, cpu);
    EXPECT_EQ(find(list, 1)->ebx >> 16 & 0xff, 8U);
    EXPECT_EQ(find(list, 0xb, 0)->edx, cpu);
    EXPECT_EQ(find(list, 0x8000'001e)->eax, cpu);
    EXPECT_EQ(find(list, 0x8000'001e)->ebx & 0xff, cpu);
  }
}

TEST(Cpuid, DescribesOnePackageOfSingleThreadedCores) {
  for (const uint32_t function : {0xbU, 0x1fU}) {
    const auto list = guest_cpuid(processor(), {.cpu = 2, .cpus = 6});
    const auto thread = find(list, function, 0), core = find(list, function, 1),
               end = find(list, function, 2);
    ASSERT_TRUE(thread && core && end) << function;
    EXPECT_EQ(thread->eax, 0U);
    EXPECT_EQ(thread->ebx, 1U);
    EXPECT_EQ(thread->ecx, 0x100U);
    // All APIC ids shifted by this are the one package.
    EXPECT_EQ(core->eax, 3U);
    EXPECT_EQ(core->ebx, 6U);
    EXPECT_EQ(core->ecx, 0x201U);
    EXPECT_EQ(end->ebx, 0U);
    EXPECT_EQ(end->ecx, 2U);
    for (const auto& entry : {*thread, *core, *end}) {
      EXPECT_EQ(entry.edx, 2U);
      EXPECT_EQ(entry.flags, kCpuidSignificantIndex);
    }
  }
}

TEST(Cpuid, ReplacesTheHostsTopology) {
  auto list = processor();
  for (uint32_t index = 1; index < 6; ++index) {
    auto entry = leaf(0xb, index);
    entry.ebx = 99;
    entry.ecx = 0x300 | index;
    list.push_back(entry);
  }
  list = guest_cpuid(list, {.cpu = 0, .cpus = 2});
  EXPECT_EQ(std::count_if(list.begin(), list.end(),
                          [](const auto& entry) { return entry.function == 0xb; }),
            3);
  EXPECT_FALSE(find(list, 0xb, 3));
}

TEST(Cpuid, InventsNoTopologyLeafThatTheProcessorLacks) {
  const auto list = guest_cpuid({leaf(0), leaf(1)}, {.cpu = 0, .cpus = 2});
  EXPECT_FALSE(find(list, 0xb));
  EXPECT_FALSE(find(list, 0x1f));
  EXPECT_EQ(list.size(), 2U);
}

TEST(Cpuid, SaysThatThereIsAHypervisorWithADeadlineTimerAndNoCounters) {
  const auto list = guest_cpuid(processor(), {});
  EXPECT_NE(find(list, 1)->ecx & 1U << 31, 0U);
  EXPECT_NE(find(list, 1)->ecx & 1U << 24, 0U);
  EXPECT_EQ(find(list, 1)->ecx & 1U << 15, 0U);
  auto empty = leaf(0xa);
  EXPECT_EQ(find(list, 0xa), empty);
}

// Every bit that KVM might offer, and what is left of it.
struct Hidden {
  uint32_t function;
  uint32_t index;
  uint32_t CpuidEntry::* word;
  uint32_t absent;
};

TEST(Cpuid, HidesWhatASandboxIsBetterOffWithout) {
  constexpr uint32_t kAll = 0xffff'ffff;
  for (const auto& row : std::to_array<Hidden>({
           {1, 0, &CpuidEntry::ecx, 1U << 5},                                  // VMX
           {1, 0, &CpuidEntry::ecx, 1U << 2 | 1U << 15},                       // DTES64, PDCM
           {6, 0, &CpuidEntry::ecx, 1},                                        // APERF/MPERF
           {7, 0, &CpuidEntry::ebx, 1U << 2 | 1U << 25 | 1U << 4 | 1U << 11},  // SGX, PT, TSX
           {0xa, 0, &CpuidEntry::eax, kAll},                                   // counters
           {0x12, 1, &CpuidEntry::eax, kAll},                                  // SGX
           {0x14, 0, &CpuidEntry::ebx, kAll},                                  // PT
           {0x8000'0001, 0, &CpuidEntry::ecx, 1U << 2},                        // SVM
           {0x8000'0001, 0, &CpuidEntry::ecx, 1U << 23},                       // PERFCTR_CORE
           {0x8000'000a, 0, &CpuidEntry::edx, kAll},                           // SVM's own leaf
           {0x8000'001f, 0, &CpuidEntry::eax, kAll},                           // SEV
           {0x8000'0022, 0, &CpuidEntry::eax, kAll},  // counters, version 2
           {0x4000'0001, 0, &CpuidEntry::eax, 1U << 10 | 1U << 16 | 1U << 17},
       })) {
    auto full = leaf(row.function, row.index);
    full.eax = full.ebx = full.ecx = full.edx = kAll;
    const auto list = guest_cpuid({full}, {});
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0].*row.word & row.absent, 0U) << std::hex << row.function;
  }
}

TEST(Cpuid, KeepsWhatTheGuestsClocksLiveOn) {
  auto paravirtual = leaf(0x4000'0001);
  // Clock sources, steal time, asynchronous page faults by interrupt, the stable clock bit.
  paravirtual.eax = 1U | 1U << 3 | 1U << 5 | 1U << 4 | 1U << 14 | 1U << 24;
  auto power = leaf(0x8000'0007);
  power.edx = 1U << 8;
  auto thermal = leaf(6);
  thermal.eax = 1U << 2;
  for (const auto& entry : {paravirtual, power, thermal})
    EXPECT_EQ(guest_cpuid({entry}, {}).front(), entry) << std::hex << entry.function;
}

TEST(Cpuid, OtherSubleavesOfTheFeatureLeafAreNotTouched) {
  auto second = leaf(7, 1);
  second.eax = second.ebx = second.ecx = second.edx = 0xffff'ffff;
  EXPECT_EQ(guest_cpuid({second}, {}).front(), second);
}

TEST(Cpuid, TellsHowFastTimeRunsWhereThatIsSteady) {
  auto base = leaf(0x4000'0000);
  base.eax = 0x4000'0001;
  auto power = leaf(0x8000'0007);
  power.edx = 1U << 8;
  const auto list = guest_cpuid({base, power}, {}, 2'400'000);
  ASSERT_TRUE(find(list, 0x4000'0010));
  EXPECT_EQ(find(list, 0x4000'0010)->eax, 2'400'000U);
  EXPECT_EQ(find(list, 0x4000'0010)->ebx, 1'000'000U);
  EXPECT_EQ(find(list, 0x4000'0000)->eax, 0x4000'0010U);

  EXPECT_FALSE(find(guest_cpuid({base, power}, {}, 0), 0x4000'0010));
  power.edx = 0;
  EXPECT_EQ(guest_cpuid({base, power}, {}, 2'400'000).size(), 2U);
}

TEST(Cpuid, TheLargestMachineIsOnePackageInEveryLeaf) {
  for (const uint32_t cpus : {1U, 2U, 3U, 31U, 32U}) {
    const uint32_t last = cpus - 1;
    const auto list = guest_cpuid(processor(), {.cpu = last, .cpus = cpus});
    EXPECT_EQ(find(list, 1)->ebx >> 24, last);
    EXPECT_EQ(find(list, 0xb, 1)->ebx, cpus);
    // The package is what is left when an APIC id loses so many bits: 0 for every CPU.
    EXPECT_EQ(last >> find(list, 0xb, 1)->eax, 0U) << cpus;
    EXPECT_EQ(find(list, 0x8000'0008)->ecx & 0xff, cpus - 1);
    EXPECT_EQ(find(list, 4, 3)->eax >> 14 & 0xfff, cpus - 1);
    EXPECT_EQ(find(list, 4, 3)->eax >> 26, cpus - 1);
  }
}

TEST(Cpuid, SharesTheLastCacheOnly) {
  const auto list = guest_cpuid(processor(), {.cpu = 0, .cpus = 4});
  EXPECT_EQ(find(list, 4, 0)->eax >> 14 & 0xfff, 0U);
  EXPECT_EQ(find(list, 4, 3)->eax >> 14 & 0xfff, 3U);
  EXPECT_EQ(find(list, 4, 0)->eax & 0x3fff, 1U << 5 | 1);  // and keeps what else is there
}

TEST(Cpuid, KeepsSignatureBrandAndTheExtendedRange) {
  const auto before = processor();
  const auto list = guest_cpuid(before, {.cpu = 1, .cpus = 2});
  for (const uint32_t function : {0U, 0x4000'0000U, 0x8000'0000U, 0x8000'0002U})
    EXPECT_EQ(find(list, function), find(before, function)) << function;
}

TEST(Cpuid, HyperThreadingBitFollowsTheNumberOfCpus) {
  EXPECT_EQ(find(guest_cpuid(processor(), {.cpu = 0, .cpus = 1}), 1)->edx & 1U << 28, 0U);
  EXPECT_NE(find(guest_cpuid(processor(), {.cpu = 0, .cpus = 2}), 1)->edx & 1U << 28, 0U);
}

TEST(BootMsrs, MakeMemoryCacheableAndStringMovesFast) {
  const auto msrs = boot_msrs();
  const std::pair<uint32_t, uint64_t> misc{0x1a0, 1}, mtrr{0x2ff, 0x806};
  EXPECT_NE(std::find(msrs.begin(), msrs.end(), misc), msrs.end());
  EXPECT_NE(std::find(msrs.begin(), msrs.end(), mtrr), msrs.end());
}

}
