// A driver, a device and a vCPU's exits on three threads, with the kernel's ring between them: no
// interrupt may be lost however late an acknowledgement arrives.
#include "../../../src/monitor/kept_writes.h"

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include <linux/kvm.h>

#include <gtest/gtest.h>

#include "mvm/virtio/mmio.h"

namespace mvm::monitor {
namespace {

constexpr uint64_t kDevice = 0xd000'0000;
constexpr uint64_t kAck = kDevice + virtio::mmio::kInterruptAck;

bool is_acknowledgement(uint64_t address) {
  return address % virtio::mmio::kWindow == virtio::mmio::kInterruptAck;
}

// What KVM does with a write to a coalesced range.
class Ring {
 public:
  std::span<std::byte> page() { return page_; }
  // False: it is full, and the write an exit.
  bool write(uint64_t address, uint32_t value) {
    auto* indices = reinterpret_cast<uint32_t*>(page_.data());
    const uint32_t last = indices[1];
    constexpr uint32_t kEntries = (4096 - 8) / sizeof(kvm_coalesced_mmio);
    if ((last + 1) % kEntries == __atomic_load_n(&indices[0], __ATOMIC_ACQUIRE)) return false;
    kvm_coalesced_mmio entry{};
    entry.phys_addr = address;
    entry.len = sizeof value;
    std::memcpy(entry.data, &value, sizeof value);
    std::memcpy(page_.data() + 8 + last * sizeof entry, &entry, sizeof entry);
    __atomic_store_n(&indices[1], (last + 1) % kEntries, __ATOMIC_RELEASE);
    return true;
  }

 private:
  alignas(4096) std::array<std::byte, 4096> page_{};
};

TEST(KeptWritesTest, AreAppliedInOrderAndAcknowledgementsWhenAskedFor) {
  Ring ring;
  std::vector<std::pair<uint64_t, uint32_t>> applied;
  KeptWrites kept(is_acknowledgement, [&](uint64_t address, ByteView data) {
    uint32_t value = 0;
    std::memcpy(&value, data.data(), sizeof value);
    applied.emplace_back(address, value);
  });
  kept.attach(kvm::CoalescedWrites(ring.page()));
  for (uint32_t round = 0; round < 300; ++round) {  // past the ring's end more than once
    applied.clear();
    ASSERT_TRUE(ring.write(kDevice + 0x38, 1));
    ASSERT_TRUE(ring.write(kAck, 2));
    ASSERT_TRUE(ring.write(kAck + virtio::mmio::kWindow, 3));
    ASSERT_TRUE(ring.write(kDevice + 0x80, 4));
    kept.take_acknowledgements(kAck);
    ASSERT_EQ(applied, (decltype(applied){{kAck, 2}}));
    kept.apply_all();
    ASSERT_EQ(applied, (decltype(applied){{kAck, 2},
                                          {kDevice + 0x38, 1},
                                          {kAck + virtio::mmio::kWindow, 3},
                                          {kDevice + 0x80, 4}}));
  }
}

TEST(KeptWritesTest, NoInterruptIsLost) {
  constexpr uint32_t kRounds = 20'000;
  Ring ring;
  alignas(8) std::array<std::byte, 4096> page{};
  virtio::RegisterPage registers(page);
  KeptWrites kept(is_acknowledgement, [&](uint64_t address, ByteView data) {
    uint32_t bits = 0;
    std::memcpy(&bits, data.data(), sizeof bits);
    if (address == kAck) registers.clear_bits(virtio::mmio::kInterruptStatus, bits);
  });
  kept.attach(kvm::CoalescedWrites(ring.page()));
  std::atomic<uint32_t> edges = 0;
  std::atomic<uint32_t> used = 0;
  std::atomic<uint32_t> seen = 0;
  std::atomic<bool> over = false;
  std::thread driver([&] {
    for (uint32_t last = 0; !over;) {
      const uint32_t now = edges.load();
      if (now == last) {
        std::this_thread::yield();
        continue;
      }
      last = now;
      const uint32_t status = registers.get(virtio::mmio::kInterruptStatus);
      if (status == 0) continue;
      while (!ring.write(kAck, status)) kept.apply_all();
      seen = used.load();
    }
  });
  std::thread exits([&] {
    while (!over) {
      kept.apply_all();
      std::this_thread::yield();
    }
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  uint32_t round = 1;
  for (; round <= kRounds; ++round) {
    used = round;
    kept.take_acknowledgements(kAck);
    registers.set_bits(virtio::mmio::kInterruptStatus, 1);
    ++edges;
    while (seen != round && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (seen != round) break;
  }
  over = true;
  driver.join();
  exits.join();
  EXPECT_EQ(round, kRounds + 1) << "the driver slept through an interrupt";
}

}
}
