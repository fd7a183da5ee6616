// The register file as a state machine: what may be written when, and what that leads to.

#include "mvm/virtio/mmio.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "support/driver_queue.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using test::DriverQueue;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint8_t kAck = kStatusAcknowledge;
constexpr uint8_t kDriver = kAck | kStatusDriver;
constexpr uint8_t kFeatures = kDriver | kStatusFeaturesOk;
constexpr uint8_t kRunning = kFeatures | kStatusDriverOk;

class FakeDevice : public Device {
 public:
  DeviceId id() const noexcept override { return DeviceId::Entropy; }
  Features features() const noexcept override { return Features().with(0).with(5); }
  std::span<const uint16_t> queue_sizes() const noexcept override { return sizes_; }
  ByteView config() const noexcept override { return std::as_bytes(std::span(config_bytes)); }
  void activate(QueueSet queues, Features negotiated) noexcept override {
    active = queues;
    accepted = negotiated;
    ++activations;
  }
  void reset() noexcept override {
    active = {};
    ++resets;
  }
  Progress process(uint16_t queue) noexcept override {
    processed.push_back(queue);
    return progress;
  }
  Effects take_effects() noexcept override { return effects.take(); }
  void write_config(uint64_t offset, ByteView data) noexcept override {
    config_writes.emplace_back(offset, data.size());
  }

  std::vector<std::pair<uint64_t, size_t>> config_writes;
  std::array<uint8_t, 7> config_bytes{1, 2, 3, 4, 5, 6, 7};
  QueueSet active;
  Features accepted;
  Effects effects;
  Progress progress = Progress::Idle;
  int activations = 0;
  int resets = 0;
  std::vector<uint16_t> processed;

 private:
  std::array<uint16_t, 2> sizes_{256, 64};
};

class FakeSignals : public Signals {
 public:
  void raise_interrupt() noexcept override { ++interrupts; }
  void kick(uint16_t queue) noexcept override { kicks.push_back(queue); }
  void take_acknowledgements() noexcept override {
    for (const uint32_t bits : std::exchange(late, {}))
      transport->write(mmio::kInterruptAck, std::as_bytes(std::span(&bits, 1)));
  }
  int interrupts = 0;
  std::vector<uint32_t> late;  // acknowledgements that have not arrived
  MmioTransport* transport = nullptr;
  std::vector<uint16_t> kicks;
};

class Mmio : public testing::Test {
 protected:
  uint32_t get(uint64_t offset) {
    uint32_t value = 0xdddddddd;
    transport.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void set(uint64_t offset, uint32_t value) {
    transport.write(offset, std::as_bytes(std::span(&value, 1)));
  }
  void accept_features(uint64_t bits) {
    set(mmio::kDriverFeaturesSelect, 0);
    set(mmio::kDriverFeatures, static_cast<uint32_t>(bits));
    set(mmio::kDriverFeaturesSelect, 1);
    set(mmio::kDriverFeatures, static_cast<uint32_t>(bits >> 32));
  }
  // Walks the legal way to `status`, one of the five legal values.
  void reach(uint8_t status) {
    set(mmio::kStatus, 0);
    if (status & kStatusAcknowledge) set(mmio::kStatus, kAck);
    if (status & kStatusDriver) set(mmio::kStatus, kDriver);
    if (status & kStatusFeaturesOk) {
      accept_features(kRingFeatures.bits());
      set(mmio::kStatus, kFeatures);
    }
    if (status & kStatusDriverOk) set(mmio::kStatus, kRunning);
    ASSERT_EQ(get(mmio::kStatus), status);
  }
  void set_up_queue(uint32_t index, const QueueRegisters& registers) {
    set(mmio::kQueueSelect, index);
    set(mmio::kQueueSize, registers.size);
    const auto put = [&](uint64_t low, memory::GuestAddress address) {
      set(low, static_cast<uint32_t>(address.value));
      set(low + 4, static_cast<uint32_t>(address.value >> 32));
    };
    put(mmio::kQueueDescriptorLow, registers.descriptor_area);
    put(mmio::kQueueDriverLow, registers.driver_area);
    put(mmio::kQueueDeviceLow, registers.device_area);
    set(mmio::kQueueReady, 1);
  }

  GuestMemory memory = GuestMemory::create(kMiB);
  FakeDevice device;
  FakeSignals signals;
  alignas(8) std::array<std::byte, mmio::kWindow> page{};
  MmioTransport transport{memory, device, signals, page};
  DriverQueue driver{memory, 0x10000, 8};
};

TEST_F(Mmio, IdentifiesItself) {
  EXPECT_EQ(get(mmio::kMagic), 0x74726976U);
  EXPECT_EQ(get(mmio::kVersion), 2U);
  EXPECT_EQ(get(mmio::kDeviceId), 4U);
  EXPECT_EQ(get(mmio::kSharedMemoryLengthLow), 0xffffffffU);
  EXPECT_EQ(get(mmio::kSharedMemoryLengthHigh), 0xffffffffU);
  set(mmio::kDeviceFeaturesSelect, 0);
  EXPECT_EQ(get(mmio::kDeviceFeatures), 0x30000021U);
  set(mmio::kDeviceFeaturesSelect, 1);
  EXPECT_EQ(get(mmio::kDeviceFeatures), 1U);
  set(mmio::kDeviceFeaturesSelect, 2);
  EXPECT_EQ(get(mmio::kDeviceFeatures), 0U);
}

// From each legal status, every value that fits the register and some that do not. FEATURES_OK is
// not reached here, since no features were accepted; see the next but one.
TEST_F(Mmio, StatusMovesOnlyAlongTheTable) {
  for (const uint8_t from : {uint8_t{0}, kAck, kDriver, kFeatures, kRunning}) {
    for (uint32_t to = 0; to <= 0x1ff; ++to) {
      reach(from);
      set(mmio::kStatus, to);
      const uint32_t wanted = to & ~uint32_t{kStatusNeedsReset};
      uint32_t expected = from;
      if (to == 0)
        expected = 0;
      else if (to > 0xff)
        expected = from;
      else if (wanted == (from | kStatusFailed))
        expected = from | kStatusFailed;
      else if ((from == 0 && wanted == kAck) || (from == kAck && wanted == kDriver) ||
               (from == kFeatures && wanted == kRunning))
        expected = wanted;
      ASSERT_EQ(get(mmio::kStatus), expected) << int{from} << " -> " << to;
    }
  }
}

TEST_F(Mmio, OnlyResetLeadsOutOfFailed) {
  reach(kDriver);
  set(mmio::kStatus, kDriver | kStatusFailed);
  accept_features(kRingFeatures.bits());
  set(mmio::kStatus, kFeatures | kStatusFailed);
  set(mmio::kStatus, kFeatures);
  EXPECT_EQ(get(mmio::kStatus), uint32_t{kDriver} | kStatusFailed);
  reach(kRunning);
}

TEST_F(Mmio, FeaturesMustBeOfferedAndModern) {
  const uint64_t modern = uint64_t{1} << kFeatureVersion1;
  struct Case {
    uint64_t bits;
    bool accepted;
  };
  for (const Case& c : {Case{modern, true},
                        {0, false},
                        {modern | 1, true},
                        {modern | 2, false},
                        {uint64_t{1} << kFeatureEventIndex, false},
                        {modern | uint64_t{1} << 34, false},
                        {kRingFeatures.bits() | 0x21, true},
                        {~uint64_t{0}, false}}) {
    reach(kDriver);
    accept_features(c.bits);
    set(mmio::kStatus, kFeatures);
    EXPECT_EQ(get(mmio::kStatus), c.accepted ? kFeatures : kDriver) << c.bits;
  }
}

// ---- every status, every register, every width --------------------------------------------------

TEST_F(Mmio, RegistersCanBeWrittenExactlyInTheStateForThem) {
  const std::vector<uint64_t> queue_registers{mmio::kQueueSize,           mmio::kQueueDescriptorLow,
                                              mmio::kQueueDescriptorHigh, mmio::kQueueDriverLow,
                                              mmio::kQueueDriverHigh,     mmio::kQueueDeviceLow,
                                              mmio::kQueueDeviceHigh};
  for (const uint8_t status : {uint8_t{0}, kAck, kDriver, kFeatures, kRunning}) {
    for (const bool failed : {false, true}) {
      // Queue registers: try to spoil one, then go on and see whether activation notices.
      for (const uint64_t spoilt : queue_registers) {
        for (const bool ready : {false, true}) {
          reach(status >= kFeatures ? kFeatures : status);
          if (status >= kFeatures) {
            set_up_queue(0, driver.registers());
            if (!ready) set(mmio::kQueueReady, 0);
          }
          if (status == kRunning) {
            set(mmio::kQueueReady, 1);
            set(mmio::kStatus, kRunning);
            ASSERT_TRUE(transport.running());
          }
          if (failed) set(mmio::kStatus, uint32_t{status} | kStatusFailed);
          set(spoilt, 0xfffffff1);
          const bool writable = status == kFeatures && !failed && !ready;
          if (status != kFeatures || failed) {
            if (status == kRunning && !failed) {
              ASSERT_TRUE(transport.running());
              ASSERT_EQ(device.active[0]->size(), 8);
            }
            continue;
          }
          set(mmio::kQueueReady, 1);
          set(mmio::kStatus, kRunning);
          ASSERT_EQ(transport.running(), !writable) << std::hex << spoilt << ' ' << ready;
        }
      }
      // Before FEATURES_OK nothing sticks: a queue set up too early is not there.
      if (status < kFeatures) {
        reach(status);
        set_up_queue(0, driver.registers());
        EXPECT_EQ(get(mmio::kQueueReady), 0U);
        if (status <= kDriver) {
          if (status < kAck) set(mmio::kStatus, kAck);
          if (status < kDriver) set(mmio::kStatus, kDriver);
          accept_features(kRingFeatures.bits());
          set(mmio::kStatus, kFeatures);
          set(mmio::kStatus, kRunning);
          ASSERT_TRUE(transport.running());
          EXPECT_FALSE(device.active[0]);
        }
      }
      // QueueReady.
      reach(status);
      if (failed) set(mmio::kStatus, uint32_t{status} | kStatusFailed);
      set(mmio::kQueueSelect, 0);
      set(mmio::kQueueReady, 1);
      EXPECT_EQ(get(mmio::kQueueReady), status == kFeatures && !failed ? 1U : 0U);
      // Feature words.
      reach(status);
      if (failed) set(mmio::kStatus, uint32_t{status} | kStatusFailed);
      const Features before = transport.negotiated();
      set(mmio::kDriverFeaturesSelect, 0);
      set(mmio::kDriverFeatures, 0x12345678);
      EXPECT_EQ(transport.negotiated() != before, status == kDriver && !failed) << int{status};
    }
  }
}

TEST_F(Mmio, OnlyAlignedWordsWriteARegister) {
  for (uint64_t offset = 0; offset < mmio::kConfig; ++offset) {
    for (const size_t width : {1U, 2U, 4U, 8U}) {
      if (width == 4 && offset % 4 == 0) continue;
      reach(kFeatures);
      set_up_queue(0, driver.registers());
      std::array<std::byte, 8> bytes;
      bytes.fill(std::byte{0xa5});
      transport.read(offset, std::span(bytes).first(width));
      for (size_t i = 0; i < width; ++i) ASSERT_EQ(bytes[i], page.at(offset + i)) << offset;
      bytes.fill(std::byte{0xff});
      transport.write(offset, std::span(bytes).first(width));
      bytes.fill(std::byte{0});
      transport.write(offset, std::span(bytes).first(width));
      ASSERT_EQ(get(mmio::kStatus), kFeatures) << offset << ' ' << width;
      ASSERT_EQ(get(mmio::kQueueReady), 1U);
      set(mmio::kStatus, kRunning);
      ASSERT_TRUE(transport.running());
      ASSERT_EQ(device.active[0]->size(), 8);
    }
  }
}

TEST_F(Mmio, EveryQueueSelectorIsHarmless) {
  for (uint32_t selector = 0; selector <= 0xffff; ++selector) {
    if (selector == 64) selector = 0xff00;  // a long stretch of the same
    reach(kFeatures);
    set(mmio::kQueueSelect, selector);
    for (uint64_t offset = 0; offset < mmio::kConfig; offset += 4) {
      if (offset == mmio::kStatus) continue;
      get(offset);
      if (offset != mmio::kQueueSelect) set(offset, 0xffffffff);
    }
    const uint32_t sizes[] = {256, 64};
    set(mmio::kQueueSelect, selector);
    ASSERT_EQ(get(mmio::kQueueSizeMax), selector < 2 ? sizes[selector] : 0);
    set(mmio::kQueueReady, 1);
    ASSERT_EQ(get(mmio::kQueueReady), selector < 2 ? 1U : 0U);
  }
  // All 32 bits count.
  reach(kFeatures);
  set(mmio::kQueueSelect, 0x10000);
  EXPECT_EQ(get(mmio::kQueueSizeMax), 0U);
}

TEST_F(Mmio, AnySixteenBitSelectorTouchesNothingBeyondTheQueues) {
  reach(kFeatures);
  for (uint32_t selector = 2; selector <= 0xffff; ++selector) {
    set(mmio::kQueueSelect, selector);
    set(mmio::kQueueSize, 1);
    set(mmio::kQueueDescriptorLow, 1);
    set(mmio::kQueueReady, 1);
    ASSERT_EQ(get(mmio::kQueueReady) + get(mmio::kQueueSizeMax), 0U);
  }
  set_up_queue(0, driver.registers());
  set(mmio::kStatus, kRunning);
  EXPECT_TRUE(transport.running());
}

TEST_F(Mmio, ConfigurationReadsAreBoundedAtAnyWidth) {
  for (uint64_t offset = 0; offset < 64; ++offset) {
    for (const size_t width : {1U, 2U, 4U, 8U}) {
      std::array<std::byte, 8> bytes;
      bytes.fill(std::byte{0xee});
      transport.read(mmio::kConfig + offset, std::span(bytes).first(width));
      for (size_t i = 0; i < width; ++i)
        ASSERT_EQ(bytes[i], std::byte(offset + i < 7 ? offset + i + 1 : 0)) << offset;
    }
  }
  std::array<std::byte, 8> bytes{};
  transport.read(UINT64_MAX, bytes);
  transport.write(UINT64_MAX, bytes);
  transport.write(mmio::kConfig, bytes);
  EXPECT_EQ(device.config_bytes[0], 1);
}

TEST_F(Mmio, ConfigurationWritesReachTheDeviceOnceFeaturesAreAgreedOn) {
  const std::array<std::byte, 4> bytes{};
  for (const uint8_t status : {uint8_t{0}, kAck, kDriver}) {
    reach(status);
    transport.write(mmio::kConfig + 4, bytes);
  }
  EXPECT_TRUE(device.config_writes.empty());
  reach(kFeatures);
  transport.write(mmio::kConfig + 4, bytes);
  transport.write(UINT64_MAX, std::span(bytes).first(1));
  const std::vector<std::pair<uint64_t, size_t>> seen{{4, 4}, {UINT64_MAX - mmio::kConfig, 1}};
  EXPECT_EQ(device.config_writes, seen);
}

// ---- activation and what follows ----------------------------------------------------------------

TEST_F(Mmio, ActivationHandsOverTheReadyQueuesAndKicksThem) {
  reach(kFeatures);
  set_up_queue(1, driver.registers());
  set(mmio::kStatus, kRunning);
  ASSERT_TRUE(transport.running());
  ASSERT_EQ(device.active.size(), 2U);
  EXPECT_FALSE(device.active[0]);
  EXPECT_TRUE(device.active[1]);
  EXPECT_EQ(device.accepted, kRingFeatures);
  EXPECT_EQ(signals.kicks, std::vector<uint16_t>{1});
  EXPECT_EQ(transport.process(1), Progress::Idle);
  transport.process(0);
  transport.process(2);
  transport.process(0xffff);
  EXPECT_EQ(device.processed, std::vector<uint16_t>{1}) << "absent queues are not served";
}

TEST_F(Mmio, ABrokenQueueNeedsAResetInsteadOfRunning) {
  reach(kFeatures);
  set_up_queue(0, driver.registers());
  QueueRegisters broken = driver.registers();
  broken.size = 0x10040;  // its low half is a legal size
  set_up_queue(1, broken);
  set(mmio::kStatus, kRunning);
  EXPECT_FALSE(transport.running());
  EXPECT_EQ(get(mmio::kStatus), uint32_t{kRunning} | kStatusNeedsReset);
  EXPECT_EQ(get(mmio::kInterruptStatus), mmio::kInterruptConfigChange);
  EXPECT_EQ(signals.interrupts, 1);
  EXPECT_EQ(device.activations, 0);
  EXPECT_EQ(transport.take_fault(), QueueFault::BadSize);
  EXPECT_FALSE(transport.take_fault()) << "said once";
  set(mmio::kQueueNotify, 0);
  EXPECT_TRUE(signals.kicks.empty());
  EXPECT_EQ(transport.process(0), Progress::Idle);
}

TEST_F(Mmio, ResetLeadsBackToAFreshDevice) {
  for (int round = 1; round <= 3; ++round) {
    reach(kFeatures);
    set(mmio::kQueueSelect, 0);
    ASSERT_EQ(get(mmio::kQueueSizeMax), 256U);
    ASSERT_EQ(get(mmio::kQueueReady), 0U);
    set_up_queue(0, driver.registers());
    set(mmio::kStatus, kRunning);
    ASSERT_TRUE(transport.running());
    ASSERT_EQ(device.activations, round);
    device.effects.used_buffers = true;
    transport.settle();
    set(mmio::kStatus, 0);
    EXPECT_EQ(get(mmio::kStatus), 0U);
    EXPECT_EQ(get(mmio::kInterruptStatus), 0U);
    EXPECT_EQ(transport.negotiated(), Features());
    EXPECT_TRUE(device.active.empty());
    EXPECT_EQ(transport.process(0), Progress::Idle);
  }
}

TEST_F(Mmio, EffectsBecomeInterruptsUntilAcknowledged) {
  reach(kFeatures);
  set_up_queue(0, driver.registers());
  set(mmio::kStatus, kRunning);
  const uint32_t generation = get(mmio::kConfigGeneration);
  transport.settle();
  EXPECT_EQ(signals.interrupts, 0);
  device.effects.used_buffers = true;
  transport.settle();
  EXPECT_EQ(get(mmio::kInterruptStatus), 1U);
  device.effects.config_changed = true;
  transport.settle();
  EXPECT_EQ(get(mmio::kInterruptStatus), 3U);
  EXPECT_EQ(get(mmio::kConfigGeneration), generation + 1);
  EXPECT_EQ(signals.interrupts, 2);
  set(mmio::kInterruptAck, 1);
  EXPECT_EQ(get(mmio::kInterruptStatus), 2U);
  set(mmio::kInterruptAck, 0xffffffff);
  EXPECT_EQ(get(mmio::kInterruptStatus), 0U);
}

TEST_F(Mmio, ALateAcknowledgementDoesNotTakeBackAnInterruptThatWasNotSeen) {
  signals.transport = &transport;
  reach(kFeatures);
  set_up_queue(0, driver.registers());
  set(mmio::kStatus, kRunning);
  device.effects.used_buffers = true;
  transport.settle();
  ASSERT_EQ(get(mmio::kInterruptStatus), 1U);
  signals.late.push_back(1);
  device.effects.used_buffers = true;
  device.effects.config_changed = true;
  transport.settle();
  EXPECT_TRUE(signals.late.empty());
  EXPECT_EQ(get(mmio::kInterruptStatus), 3U);
  // One of what was read before the configuration changed.
  signals.late.push_back(1);
  device.effects.used_buffers = true;
  transport.settle();
  EXPECT_EQ(get(mmio::kInterruptStatus), 3U);
  set(mmio::kInterruptAck, 3);
  EXPECT_EQ(get(mmio::kInterruptStatus), 0U);
}

// What the guest sees without asking is what it would be told.
TEST_F(Mmio, ThePageAlwaysShowsWhatAReadGives) {
  const auto word = [&](uint64_t offset) {
    uint32_t value = 0;
    std::memcpy(&value, page.data() + offset, sizeof value);
    return value;
  };
  const auto same = [&](const char* when) {
    for (uint64_t offset = 0; offset < mmio::kWindow; offset += 4)
      ASSERT_EQ(word(offset), get(offset)) << when << " at " << offset;
  };
  EXPECT_EQ(word(mmio::kMagic), 0x74726976U);
  EXPECT_EQ(word(mmio::kSharedMemoryBaseHigh), 0xffffffffU);
  set(mmio::kDeviceFeaturesSelect, 1);
  EXPECT_EQ(word(mmio::kDeviceFeatures), 1U);
  set(mmio::kDeviceFeaturesSelect, 0xffff'ffff);
  EXPECT_EQ(word(mmio::kDeviceFeatures), 0U);
  reach(kFeatures);
  EXPECT_EQ(word(mmio::kStatus), kFeatures);
  set_up_queue(1, driver.registers());
  EXPECT_EQ(word(mmio::kQueueReady), 1U);
  set(mmio::kQueueSelect, 0);
  EXPECT_EQ(word(mmio::kQueueReady), 0U);
  EXPECT_EQ(word(mmio::kQueueSizeMax), 256U);
  set(mmio::kQueueSelect, 1000);
  EXPECT_EQ(word(mmio::kQueueSizeMax), 0U);
  set(mmio::kStatus, kRunning);
  device.effects = {.used_buffers = true, .config_changed = true, .fault = {}};
  transport.settle();
  EXPECT_EQ(word(mmio::kInterruptStatus), 3U);
  EXPECT_EQ(word(mmio::kConfigGeneration), 1U);
  same("running");
  set(mmio::kStatus, 0);
  EXPECT_EQ(word(mmio::kInterruptStatus), 0U);
  EXPECT_EQ(word(mmio::kStatus), 0U);
  same("after a reset");
}

TEST_F(Mmio, AFaultStopsTheDeviceOnce) {
  reach(kFeatures);
  set_up_queue(0, driver.registers());
  set(mmio::kStatus, kRunning);
  device.progress = Progress::More;
  EXPECT_EQ(transport.process(0), Progress::More);
  device.effects.fault = QueueFault::ChainTooLong;
  EXPECT_EQ(transport.process(0), Progress::Idle) << "no more work for a dead device";
  EXPECT_EQ(get(mmio::kStatus), uint32_t{kRunning} | kStatusNeedsReset);
  EXPECT_EQ(transport.take_fault(), QueueFault::ChainTooLong);
  const int interrupts = signals.interrupts;
  device.effects.fault = QueueFault::ChainTooLong;
  transport.settle();
  EXPECT_EQ(signals.interrupts, interrupts);
  EXPECT_FALSE(transport.take_fault());
  set(mmio::kStatus, uint32_t{kRunning} | kStatusNeedsReset | kStatusFailed);
  EXPECT_EQ(get(mmio::kStatus), uint32_t{kRunning} | kStatusNeedsReset | kStatusFailed);
  reach(kRunning);
}

TEST_F(Mmio, NotifyReachesTheLoopOnlyWhileRunningAndInRange) {
  set(mmio::kQueueNotify, 0);
  reach(kRunning);
  signals.kicks.clear();
  set(mmio::kQueueNotify, 1);
  set(mmio::kQueueNotify, 2);
  set(mmio::kQueueNotify, 0x10000);
  EXPECT_EQ(signals.kicks, std::vector<uint16_t>{1});
}

}
}
