// Guests of a few instructions, entered by PVH in 32-bit protected mode, on the host's KVM. Where
// that is not there to be used, each test instead holds the probe to having said so.
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/kvm/acpi.h"
#include "mvm/kvm/boot.h"
#include "mvm/kvm/cpuid.h"
#include "mvm/kvm/kvm.h"
#include "mvm/kvm/layout.h"
#include "mvm/kvm/loader.h"
#include "mvm/kvm/probe.h"
#include "mvm/kvm/serial.h"
#include "mvm/sys/io.h"
#include "mvm/sys/mapping.h"

#include "images.h"

namespace mvm::kvm {

using memory::GuestAddress;
using memory::GuestMemory;

static constexpr uint64_t kGuest = 4 << 20;

// A machine with one program in it, built in the order that the monitor builds one.
struct Guest {
  Kvm kvm{sys::open_file("/dev/kvm", O_RDWR)};
  GuestMemory memory;
  Vm vm = kvm.create_vm();
  std::vector<Vcpu> vcpus;

  explicit Guest(Bytes program, uint32_t cpus = 1, uint64_t size = kGuest)
      : memory(GuestMemory::create(size)) {
    vm.create_irqchip();
    vm.set_memory(memory);
    const uint64_t rsdp = write_acpi_tables(memory, {.cpus = cpus, .devices = {}, .serial = true});
    const auto file = file_with(ElfImage::make(std::move(program), true).bytes());
    const auto kernel = load_kernel(memory, file.get());
    const auto entry = write_boot_data(memory, kernel, {}, "", rsdp);
    for (uint32_t index = 0; index < cpus; ++index) {
      Vcpu& vcpu = vcpus.emplace_back(vm.create_vcpu(index, kvm));
      vcpu.set_cpuid(guest_cpuid(kvm.supported_cpuid(), {.cpu = index, .cpus = cpus}));
      vcpu.set_msrs(boot_msrs());
      vcpu.set_lapic_pins();
      if (index == 0) vcpu.set_entry(entry);
    }
  }
  Exit run() {
    // A signal (a profiler's, a debugger's) is no exit of the guest.
    for (int attempt = 0; attempt < 100; ++attempt) {
      const Exit exit = vcpus[0].run();
      if (exit.reason != ExitReason::Interrupted) return exit;
    }
    return {.reason = ExitReason::Interrupted};
  }
};

struct GuestTest : testing::Test {
  // True where guests run. Elsewhere the reason must be one that the probe names.
  static bool usable() {
    if (::access("/dev/kvm", R_OK | W_OK) == 0) return true;
    const Support support = probe().support;
    EXPECT_TRUE(support == Support::NoDevice || support == Support::NoPermission);
    return false;
  }
};

static uint32_t value_of(std::span<const std::byte> data) {
  uint32_t value = 0;
  std::memcpy(&value, data.data(), std::min(data.size(), sizeof value));
  return value;
}

TEST_F(GuestTest, WritesToAPort) {
  if (!usable()) return;
  Guest guest(code_bytes({0xb0, 0x42,     // mov al, 0x42
                          0xe6, 0x80}));  // out 0x80, al
  const Exit exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::PortOut);
  EXPECT_EQ(exit.address, 0x80U);
  EXPECT_EQ(exit.size, 1U);
  ASSERT_EQ(exit.data.size(), 1U);
  EXPECT_EQ(exit.data[0], std::byte{0x42});
}

TEST_F(GuestTest, ReadsFromAPort) {
  if (!usable()) return;
  Guest guest(code_bytes({0xe5, 0x60,     // in eax, 0x60
                          0xe7, 0x80}));  // out 0x80, eax
  const Exit in = guest.run();
  ASSERT_EQ(in.reason, ExitReason::PortIn);
  ASSERT_EQ(in.data.size(), 4U);
  const uint32_t answer = 0xcafe'f00d;
  std::memcpy(in.data.data(), &answer, sizeof answer);
  const Exit out = guest.run();
  ASSERT_EQ(out.reason, ExitReason::PortOut);
  EXPECT_EQ(value_of(out.data), answer);
}

TEST_F(GuestTest, WritesAStringToAPort) {
  if (!usable()) return;
  Guest guest(code_bytes({0xbe, 0x00, 0x00, 0x20, 0x00,  // mov esi, 0x200000
                          0xb9, 0x03, 0x00, 0x00, 0x00,  // mov ecx, 3
                          0x66, 0xba, 0xf8, 0x03,        // mov dx, 0x3f8
                          0xf3, 0x6e,                    // rep outsb
                          0xe6, 0x80}));                 // out 0x80, al
  ASSERT_TRUE(guest.memory.write(GuestAddress{0x20'0000}, as_bytes("abc")));
  std::string sent;
  for (int exits = 0; exits < 4; ++exits) {  // one exit, or one a byte: KVM's choice
    const Exit exit = guest.run();
    ASSERT_EQ(exit.reason, ExitReason::PortOut);
    if (exit.address == 0x80) break;
    EXPECT_EQ(exit.size, 1U);
    sent += as_text(exit.data);
  }
  EXPECT_EQ(sent, "abc");
}

TEST_F(GuestTest, KeptWritesComeBeforeTheExitThatFollowsThem) {
  if (!usable()) return;
  Guest guest(
      code_bytes({0xc7, 0x05, 0x00, 0x00, 0x00, 0xd0, 0x11, 0, 0, 0,  // mov [0xd0000000], 0x11
                  0xc7, 0x05, 0x04, 0x00, 0x00, 0xd0, 0x22, 0, 0, 0,  // mov [0xd0000004], 0x22
                  0xc7, 0x05, 0x08, 0x00, 0x00, 0xd0, 0x33, 0, 0, 0,  // mov [0xd0000008], 0x33
                  0xe6, 0x80}));                                      // out 0x80, al
  if (!guest.vm.coalesce_writes(GuestAddress{0xd000'0000}, 8)) return;
  CoalescedWrites kept = guest.vcpus[0].coalesced_writes();
  EXPECT_TRUE(kept.empty());
  // The third is outside the range, and so an exit.
  const Exit exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::MmioWrite);
  EXPECT_EQ(exit.address, 0xd000'0008U);
  std::vector<std::pair<uint64_t, uint32_t>> seen;
  while (const auto write = kept.front()) {
    EXPECT_EQ(write->bytes().size(), 4U);
    EXPECT_FALSE(kept.empty());  // until it has been applied
    seen.emplace_back(write->address, value_of(write->bytes()));
    kept.pop();
  }
  EXPECT_EQ(seen,
            (std::vector<std::pair<uint64_t, uint32_t>>{{0xd000'0000, 0x11}, {0xd000'0004, 0x22}}));
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(guest.run().reason, ExitReason::PortOut);
  EXPECT_TRUE(kept.empty());
}

TEST_F(GuestTest, KeptWritesToOneAddressAreTakenFromAmongTheOthers) {
  if (!usable()) return;
  Guest guest(
      code_bytes({0xc7, 0x05, 0x00, 0x00, 0x00, 0xd0, 0x11, 0, 0, 0,  // mov [0xd0000000], 0x11
                  0xc7, 0x05, 0x04, 0x00, 0x00, 0xd0, 0x22, 0, 0, 0,  // mov [0xd0000004], 0x22
                  0xc7, 0x05, 0x00, 0x00, 0x00, 0xd0, 0x33, 0, 0, 0,  // mov [0xd0000000], 0x33
                  0xc7, 0x05, 0x04, 0x00, 0x00, 0xd0, 0x44, 0, 0, 0,  // mov [0xd0000004], 0x44
                  0xe6, 0x80}));                                      // out 0x80, al
  if (!guest.vm.coalesce_writes(GuestAddress{0xd000'0000}, 8)) return;
  CoalescedWrites kept = guest.vcpus[0].coalesced_writes();
  ASSERT_EQ(guest.run().reason, ExitReason::PortOut);
  std::vector<uint32_t> taken;
  const auto take = [&](ByteView data) { taken.push_back(value_of(data)); };
  kept.take(0xd000'0004, take);
  EXPECT_EQ(taken, (std::vector<uint32_t>{0x22, 0x44}));
  ASSERT_TRUE(kept.front());
  EXPECT_EQ(value_of(kept.front()->bytes()), 0x11U);
  kept.pop();
  ASSERT_TRUE(kept.front());
  EXPECT_EQ(value_of(kept.front()->bytes()), 0x33U);
  kept.take(0xd000'0004, take);
  EXPECT_EQ(taken.size(), 2U);
  kept.take(0xd000'0000, take);
  EXPECT_EQ(taken.back(), 0x33U);
  EXPECT_TRUE(kept.empty());
}

TEST_F(GuestTest, BytesShownReadOnlyAreReadWithoutAnExitAndNeverWritten) {
  if (!usable()) return;
  const auto page =
      sys::Mapping::map(-1, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  auto* word = reinterpret_cast<uint32_t*>(page.data() + 4);
  *word = 41;
  Guest guest(code_bytes({0xa1, 0x04, 0x00, 0x00, 0xd0,  // mov eax, [0xd0000004]
                          0xe7, 0x80,                    // out 0x80, eax
                          0xa1, 0x04, 0x00, 0x00, 0xd0,  // mov eax, [0xd0000004]
                          0xe7, 0x80,                    // out 0x80, eax
                          0xa3, 0x04, 0x00, 0x00, 0xd0,  // mov [0xd0000004], eax
                          0xa3, 0x08, 0x00, 0x00, 0xd0,  // mov [0xd0000008], eax
                          0xa3, 0x50, 0x00, 0x00, 0xd0,  // mov [0xd0000050], eax
                          0xe7, 0x80}));                 // out 0x80, eax
  const auto kicked = sys::event_fd();
  if (!guest.vm.show_read_only(page.bytes(), GuestAddress{0xd000'0000})) return;
  guest.vm.add_ioeventfd(kicked.get(), GuestAddress{0xd000'0050}, 42);
  const bool kept_some = guest.vm.coalesce_writes(GuestAddress{0xd000'0008}, 4);
  Exit exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::PortOut);
  EXPECT_EQ(value_of(exit.data), 41U);
  *word = 42;  // seen at once
  exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::PortOut);
  EXPECT_EQ(value_of(exit.data), 42U);
  // A write is what it was without the page: an exit, one that is kept, or a notification.
  *word = 43;
  exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::MmioWrite);
  EXPECT_EQ(exit.address, 0xd000'0004U);
  EXPECT_EQ(value_of(exit.data), 42U);
  exit = guest.run();
  if (!kept_some) {
    EXPECT_EQ(exit.reason, ExitReason::MmioWrite);
    exit = guest.run();
  }
  EXPECT_EQ(exit.reason, ExitReason::PortOut);
  pollfd waiting{.fd = kicked.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
  EXPECT_EQ(*word, 43U);
  EXPECT_EQ(page.bytes()[8], std::byte{0});
}

TEST_F(GuestTest, AFullRingOfKeptWritesIsAnExit) {
  if (!usable()) return;
  Guest guest(code_bytes({0xb9, 0x00, 0x10, 0x00, 0x00,        // mov ecx, 4096
                          0x89, 0x0d, 0x00, 0x00, 0x00, 0xd0,  // again: mov [0xd0000000], ecx
                          0xe2, 0xf8,                          // loop again
                          0xe6, 0x80}));                       // out 0x80, al
  if (!guest.vm.coalesce_writes(GuestAddress{0xd000'0000}, 4)) return;
  CoalescedWrites kept = guest.vcpus[0].coalesced_writes();
  uint32_t expected = 4096;
  int exits = 0;
  while (true) {
    const Exit exit = guest.run();
    for (; const auto write = kept.front(); kept.pop())
      EXPECT_EQ(value_of(write->bytes()), expected--);
    if (exit.reason == ExitReason::PortOut) break;
    ASSERT_EQ(exit.reason, ExitReason::MmioWrite);
    EXPECT_EQ(value_of(exit.data), expected--);
    ++exits;
  }
  EXPECT_EQ(expected, 0U);
  EXPECT_GT(exits, 10);  // a page holds some 170 writes
}

TEST_F(GuestTest, ReadsAndWritesDeviceMemory) {
  if (!usable()) return;
  Guest guest(code_bytes({0xa1, 0x04, 0x00, 0x00, 0xd0,     // mov eax, [0xd0000004]
                          0x40,                             // inc eax
                          0xa3, 0x08, 0x00, 0x00, 0xd0}));  // mov [0xd0000008], eax
  const Exit read = guest.run();
  ASSERT_EQ(read.reason, ExitReason::MmioRead);
  EXPECT_EQ(read.address, 0xd000'0004U);
  ASSERT_EQ(read.data.size(), 4U);
  const uint32_t answer = 41;
  std::memcpy(read.data.data(), &answer, sizeof answer);
  const Exit write = guest.run();
  ASSERT_EQ(write.reason, ExitReason::MmioWrite);
  EXPECT_EQ(write.address, 0xd000'0008U);
  EXPECT_EQ(value_of(write.data), 42U);
}

TEST_F(GuestTest, NotificationStaysInTheKernelWhenItsValueMatches) {
  if (!usable()) return;
  Guest guest(code_bytes({0xb8, 0x01, 0x00, 0x00, 0x00,     // mov eax, 1
                          0xa3, 0x50, 0x00, 0x00, 0xd0,     // mov [0xd0000050], eax
                          0x40,                             // inc eax
                          0xa3, 0x50, 0x00, 0x00, 0xd0}));  // mov [0xd0000050], eax
  const auto kicked = sys::event_fd();
  guest.vm.add_ioeventfd(kicked.get(), GuestAddress{0xd000'0050}, 1);
  const Exit exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::MmioWrite);  // the second, whose value nobody waits for
  EXPECT_EQ(value_of(exit.data), 2U);
  pollfd waiting{.fd = kicked.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
}

TEST_F(GuestTest, TripleFaultIsAShutdown) {
  if (!usable()) return;
  Guest guest(code_bytes({0x0f, 0x0b}));  // ud2, and no interrupt table to catch it
  EXPECT_EQ(guest.run().reason, ExitReason::Shutdown);
}

TEST_F(GuestTest, KvmCountsItsExits) {
  if (!usable()) return;
  Guest guest(code_bytes({0xe6, 0x80, 0xeb, 0xfc}));  // out 0x80, al; again
  for (int i = 0; i < 10; ++i) ASSERT_EQ(guest.run().reason, ExitReason::PortOut);
  const sys::Fd stats(guest.vcpus[0].stats_fd());
  const auto counters = read_stats(stats.get());
  if (!stats) {  // before Linux 5.14
    EXPECT_TRUE(counters.empty());
    return;
  }
  const auto exits = std::find_if(counters.begin(), counters.end(),
                                  [](const auto& entry) { return entry.first == "exits"; });
  ASSERT_NE(exits, counters.end());
  EXPECT_GE(exits->second, 10U);
}

TEST_F(GuestTest, SomeDescriptorThatHoldsNoCountersGivesNone) {
  EXPECT_TRUE(read_stats(-1).empty());
  const auto zeros = file_with(std::string(4096, '\0'));
  EXPECT_TRUE(read_stats(zeros.get()).empty());
  const auto ones = file_with(std::string(4096, '\xff'));
  EXPECT_TRUE(read_stats(ones.get()).empty());
}

TEST_F(GuestTest, RequestBeforeRunningEndsTheRun) {
  if (!usable()) return;
  Guest guest(code_bytes({0xeb, 0xfe}));  // for ever
  guest.vcpus[0].request_exit();
  EXPECT_EQ(guest.vcpus[0].run().reason, ExitReason::Interrupted);
}

TEST_F(GuestTest, ARequestEndsOneRunAndTheNextGoesOn) {
  if (!usable()) return;
  Guest guest(code_bytes({0xe6, 0x80,     // out 0x80, al
                          0xeb, 0xfc}));  // again
  for (int round = 0; round < 3; ++round) {
    guest.vcpus[0].request_exit();
    EXPECT_EQ(guest.vcpus[0].run().reason, ExitReason::Interrupted);
    EXPECT_EQ(guest.run().reason, ExitReason::PortOut);
  }
}

TEST_F(GuestTest, ItsTimeStampCounterHasAFrequency) {
  if (!usable()) return;
  const Guest guest(code_bytes({0xf4}));
  EXPECT_GT(guest.vcpus[0].tsc_khz(), 100'000U);
}

TEST_F(GuestTest, SignalEndsARunningGuest) {
  if (!usable()) return;
  struct sigaction nothing{};
  nothing.sa_handler = [](int) {};
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGRTMIN, &nothing, &before), 0);
  const ScopeExit restore([&] { ::sigaction(SIGRTMIN, &before, nullptr); });
  Guest guest(code_bytes({0xe6, 0x80,     // out 0x80, al: it runs
                          0xeb, 0xfe}));  // for ever
  ASSERT_EQ(guest.run().reason, ExitReason::PortOut);
  std::atomic<bool> ended = false;
  ExitReason reason = ExitReason::Other;
  std::thread runner([&] {
    reason = guest.vcpus[0].run().reason;
    ended = true;
  });
  guest.vcpus[0].request_exit();
  // The flag makes it certain wherever the thread is; the signal only wakes it when it is inside.
  ::pthread_kill(runner.native_handle(), SIGRTMIN);
  runner.join();
  EXPECT_TRUE(ended);
  EXPECT_EQ(reason, ExitReason::Interrupted);
}

TEST_F(GuestTest, RefusedMsrIsNamed) {
  if (!usable()) return;
  Guest guest(code_bytes({0xf4}));
  const std::array<std::pair<uint32_t, uint64_t>, 2> msrs = {{{0x1a0, 1}, {0xdead'beef, 1}}};
  try {
    guest.vcpus[0].set_msrs(msrs);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Kind::Unsupported);
    EXPECT_STREQ(error.what(), "this host's KVM does not take MSR 0xdeadbeef");
  }
}

TEST_F(GuestTest, AGuestSeesTheCpuItWasGiven) {
  if (!usable()) return;
  Guest guest(code_bytes({0xb8, 0x0b, 0x00, 0x00, 0x00,  // mov eax, 0xb
                          0xb9, 0x01, 0x00, 0x00, 0x00,  // mov ecx, 1
                          0x0f, 0xa2,                    // cpuid
                          0x89, 0xd8,                    // mov eax, ebx
                          0xe7, 0x80,                    // out 0x80, eax
                          0x89, 0xc8,                    // mov eax, ecx
                          0xe7, 0x80}),                  // out 0x80, eax
              3);
  const auto supported = guest.kvm.supported_cpuid();
  const bool has_leaf = std::any_of(supported.begin(), supported.end(),
                                    [](const auto& entry) { return entry.function == 0xb; });
  Exit exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::PortOut);
  EXPECT_EQ(value_of(exit.data), has_leaf ? 3U : 0U);  // CPUs in the package
  exit = guest.run();
  ASSERT_EQ(exit.reason, ExitReason::PortOut);
  EXPECT_EQ(value_of(exit.data), has_leaf ? 0x201U : 0U);  // a level of cores
}

TEST_F(GuestTest, FirstCpuStartsTheSecond) {
  if (!usable()) return;
  Guest guest(
      code_bytes({0xc7, 0x05, 0x10, 0x03, 0xe0, 0xfe, 0,    0,    0, 0x01,  // ICR high: APIC 1
                  0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x00, 0x45, 0, 0,     // ICR low: INIT
                  0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x02, 0x46, 0, 0,     // SIPI, page 2
                  0xe6, 0x80}),                                             // out 0x80, al
      2);
  // Real mode at 0x2000: mov al, 2; out 0x81, al
  ASSERT_TRUE(guest.memory.write(GuestAddress{0x2000}, code_bytes({0xb0, 0x02, 0xe6, 0x81})));
  Exit second;
  std::thread other([&] { second = guest.vcpus[1].run(); });
  const Exit first = guest.run();
  other.join();
  ASSERT_EQ(first.reason, ExitReason::PortOut);
  EXPECT_EQ(first.address, 0x80U);
  ASSERT_EQ(second.reason, ExitReason::PortOut);
  EXPECT_EQ(second.address, 0x81U);
  EXPECT_EQ(second.data[0], std::byte{2});
}

// As many CPUs and as much memory as a sandbox may ask for. Of the memory the host gives what is
// touched.
TEST_F(GuestTest, OfTheLargestSizeRunsOnEveryCpu) {
  if (!usable()) return;
  constexpr uint32_t kCpus = 32;
  Guest guest(
      code_bytes(
          {0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x00, 0x45, 0x0c, 0,  // ICR low: INIT to all others
           0xc7, 0x05, 0x00, 0x03, 0xe0, 0xfe, 0x02, 0x46, 0x0c, 0,  // SIPI, page 2
           0xe6, 0x80}),                                             // out 0x80, al
      kCpus, memory::kMaxGuestMemory);
  // Real mode at 0x2000: each tells its APIC's number, by CPUID.
  ASSERT_TRUE(guest.memory.write(
      GuestAddress{0x2000}, code_bytes({0x66, 0xb8, 1, 0, 0, 0,      // mov eax, 1
                                        0x0f, 0xa2,                  // cpuid
                                        0x66, 0xc1, 0xeb, 24,        // shr ebx, 24
                                        0x88, 0xd8, 0xe6, 0x81})));  // mov al, bl; out 0x81, al
  std::array<Exit, kCpus> exits;
  std::array<std::byte, kCpus> said{};
  std::vector<std::thread> others;
  for (uint32_t cpu = 1; cpu < kCpus; ++cpu)
    others.emplace_back([&, cpu] {
      exits.at(cpu) = guest.vcpus[cpu].run();
      if (!exits.at(cpu).data.empty()) said.at(cpu) = exits.at(cpu).data[0];
    });
  exits[0] = guest.run();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(exits[0].address, 0x80U);
  for (uint32_t cpu = 1; cpu < kCpus; ++cpu) {
    ASSERT_EQ(exits.at(cpu).reason, ExitReason::PortOut) << cpu;
    EXPECT_EQ(exits.at(cpu).address, 0x81U);
    EXPECT_EQ(said.at(cpu), static_cast<std::byte>(cpu));
  }
}

// The whole path, as the monitor goes it: an ELF kernel by PVH finds its start_info, says hello on
// the serial port and powers off by the port that the tables name.
TEST_F(GuestTest, BootsSpeaksAndPowersOff) {
  if (!usable()) return;
  Guest guest(
      code_bytes({0x81, 0x3b, 0x78, 0xc5, 0x6e, 0x33,  // cmp dword [ebx], start_info's magic
                  0x75, 0x18,                          // jne: silence
                  0xbe, 0x26, 0x00, 0x10, 0x00,        // mov esi, text
                  0x66, 0xba, 0xf8, 0x03,              // mov dx, 0x3f8
                  0xac,                                // next: lodsb
                  0x84, 0xc0,                          // test al, al
                  0x74, 0x03,                          // je off
                  0xee,                                // out dx, al
                  0xeb, 0xf8,                          // jmp next
                  0x66, 0xba, 0x00, 0x06,              // off: mov dx, 0x600
                  0xb0, 0x34,                          // mov al, S5 | SLP_EN
                  0xee,                                // out dx, al
                  0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4,  // hlt
                  'h',  'e',  'l',  'l',  'o',  0}));
  std::string console;
  int interrupts = 0;
  Serial serial([&](ByteView bytes) { console += as_text(bytes); }, [&] { ++interrupts; });
  std::optional<PowerEvent> power;
  for (int exits = 0; exits < 20 && !power; ++exits) {
    const Exit exit = guest.run();
    ASSERT_EQ(exit.reason, ExitReason::PortOut);
    for (const std::byte byte : exit.data) {
      const auto port = static_cast<uint16_t>(exit.address);
      const auto value = std::to_integer<uint8_t>(byte);
      if (port >= layout::kSerialPort && port < layout::kSerialPort + 8)
        serial.write(static_cast<uint16_t>(port - layout::kSerialPort), value);
      else
        power = power_event(port, value);
    }
  }
  EXPECT_EQ(console, "hello");
  EXPECT_EQ(power, PowerEvent::PowerOff);
}

TEST_F(GuestTest, MachinesLeaveNothingBehind) {
  if (!usable()) return;
  const auto open_files = [] {
    std::set<std::string> names;
    for (const auto& name : sys::list_directory("/proc/self/fd")) names.insert(name);
    return names.size();
  };
  const size_t before = open_files();
  for (int i = 0; i < 5; ++i) {
    Guest guest(code_bytes({0xe6, 0x80}), 2);
    ASSERT_EQ(guest.run().reason, ExitReason::PortOut);
  }
  EXPECT_EQ(open_files(), before);
}

}
