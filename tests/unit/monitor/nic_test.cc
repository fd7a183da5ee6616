// A network card with its thread, between a driver and a real TAP in a namespace: registers, kicks,
// interrupts, and the host's network code at the other end.

#include "../../../src/monitor/nic.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <poll.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/net/guest_network.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "interrupt_line.h"
#include "support/driver_queue.h"

namespace mvm::monitor {
namespace {

namespace mmio = virtio::mmio;
using test::DriverQueue;
using virtio::Net;

constexpr uint64_t kRings = 0x10000;
constexpr uint64_t kOutgoing = 0x100000;
constexpr uint64_t kBuffers = 0x200000;
constexpr uint32_t kBufferBytes = 2048;
constexpr int kPatience = 20'000;  // milliseconds until an interrupt that must come is missing

constexpr unsigned kGuestChecksum = 1;
constexpr unsigned kMergeable = 15;
constexpr unsigned kVersion1 = 32;

std::atomic<int> waits = 0;
// One that spins comes to thousands.
int waits_in_20_ms() {
  const int before = waits;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return waits - before;
}

uint16_t checksum(ByteView data) {
  uint32_t sum = 0;
  for (Reader in(data); in.remaining() > 1;) sum += in.u16be();
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

class NicTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      network = net::make_guest_network({}, 1500);
    } catch (const Error& error) {
      if (error.kind() != Kind::Unsupported) throw;
      GTEST_SKIP() << error.message();
    }
    const net::GuestAddresses addresses;
    nic.emplace(std::move(network.tap),
                proto::MonitorNic{addresses.guest_mac, addresses.guest4, addresses.guest6, 1500});
    slot.emplace(memory, nic->device(), memory::GuestAddress{0}, 5, interrupt.raise());
    nic->attach(*slot);
    nic->start({[] {}, [](const std::string& why) { FAIL() << why; }});
  }
  // The thread first: it uses the slot.
  void TearDown() override { nic.reset(); }

  void set(uint64_t offset, uint64_t value) {
    const auto word = static_cast<uint32_t>(value);
    slot->write(offset, std::as_bytes(std::span(&word, 1)));
  }
  void set_up_queue(uint32_t index, const DriverQueue& queue) {
    const auto registers = queue.registers();
    set(mmio::kQueueSelect, index);
    set(mmio::kQueueSize, queue.size());
    set(mmio::kQueueDescriptorLow, registers.descriptor_area.value);
    set(mmio::kQueueDriverLow, registers.driver_area.value);
    set(mmio::kQueueDeviceLow, registers.device_area.value);
    set(mmio::kQueueReady, 1);
  }
  void activate(std::initializer_list<unsigned> features) {
    virtio::Features wanted = virtio::Features().with(kVersion1);
    for (const unsigned bit : features) wanted = wanted.with(bit);
    // From here on the device touches no ring, so there may be others.
    set(mmio::kStatus, 0);
    rx.emplace(memory, kRings, 64);
    tx.emplace(memory, kRings + DriverQueue::kSpan, 64);
    for (const uint32_t status : {1U, 3U}) set(mmio::kStatus, status);
    for (uint32_t word = 0; word < 2; ++word) {
      set(mmio::kDriverFeaturesSelect, word);
      set(mmio::kDriverFeatures, wanted.bits() >> (32 * word));
    }
    set(mmio::kStatus, 11);
    set_up_queue(Net::kReceiveQueue, *rx);
    set_up_queue(Net::kTransmitQueue, *tx);
    set(mmio::kStatus, 15);
  }
  void kick(uint16_t queue) { sys::signal_event(slot->kick_fds()[queue].get()); }
  void offer_buffers(unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      rx->add({{kBuffers + kBufferBytes * next_buffer++, kBufferBytes, true}});
    kick(Net::kReceiveQueue);
  }

  // An Ethernet and IPv4 header to `to`, and `payload`; sent to the device.
  void send(uint8_t protocol, const IpAddress& to, Bytes payload) {
    const net::GuestAddresses addresses;
    Bytes frame;
    Writer out(frame);
    out.put(virtio::NetHeader{});
    out.bytes(std::as_bytes(std::span(addresses.gateway_mac)));
    out.bytes(std::as_bytes(std::span(addresses.guest_mac)));
    out.u16be(0x0800);
    Bytes header;
    Writer ip(header);
    ip.u16be(0x4500);
    ip.u16be(static_cast<uint16_t>(20 + payload.size()));
    ip.u32be(0x00004000);
    ip.u8(64);
    ip.u8(protocol);
    ip.u16be(0);
    ip.bytes(std::as_bytes(addresses.guest4.bytes()));
    ip.bytes(std::as_bytes(to.bytes()));
    const uint16_t sum = checksum(header);
    header[10] = std::byte(sum >> 8);
    header[11] = std::byte(sum & 0xff);
    out.bytes(header);
    out.bytes(payload);
    ASSERT_TRUE(memory.write({kOutgoing}, frame));
    tx->add({{kOutgoing, static_cast<uint32_t>(frame.size()), false}});
    kick(Net::kTransmitQueue);
  }
  void ping_gateway() {
    Bytes echo(64);
    echo[0] = std::byte{8};
    const uint16_t sum = checksum(echo);
    echo[2] = std::byte(sum >> 8);
    echo[3] = std::byte(sum & 0xff);
    send(1, net::GuestAddresses().gateway4, echo);
  }
  // A SYN with a wrong checksum would be dropped: the namespace is told that it need not look.
  void connect_somewhere() {
    Bytes syn;
    Writer out(syn);
    out.u32be(40000U << 16 | 443);
    out.u32be(1000);
    out.u32be(0);
    out.u32be(0x5002ffff);
    out.u32be(0);
    Bytes pseudo;
    Writer all(pseudo);
    all.bytes(std::as_bytes(net::GuestAddresses().guest4.bytes()));
    all.bytes(std::as_bytes(kSomewhere.bytes()));
    all.u16be(6);
    all.u16be(20);
    all.bytes(syn);
    const uint16_t sum = checksum(pseudo);
    syn[16] = std::byte(sum >> 8);
    syn[17] = std::byte(sum & 0xff);
    send(6, kSomewhere, syn);
  }

  // The next IPv4 frame that the device hands over, its offload header in front.
  std::optional<Bytes> receive() {
    while (true) {
      if (const auto used = rx->take_used()) {
        ++seen;
        // Buffers are offered in order, and used in order.
        Bytes frame(used->length);
        EXPECT_TRUE(memory.read({kBuffers + kBufferBytes * (seen - 1)}, frame));
        if (frame.size() > 26 && frame[24] == std::byte{8} && frame[25] == std::byte{0})
          return frame;
        continue;
      }
      pollfd entry{interrupt.fd(), POLLIN, 0};
      if (::poll(&entry, 1, kPatience) != 1) return std::nullopt;
      sys::drain_event(interrupt.fd());
    }
  }

  static inline const IpAddress kSomewhere = IpAddress(IpAddress::V4{8, 8, 8, 8});
  net::GuestNetwork network;
  memory::GuestMemory memory = memory::GuestMemory::create(4 << 20);
  std::optional<Nic> nic;
  test::InterruptLine interrupt;
  std::optional<DeviceSlot> slot;
  std::optional<DriverQueue> rx;
  std::optional<DriverQueue> tx;
  uint64_t next_buffer = 0;
  uint64_t seen = 0;
};

TEST_F(NicTest, CarriesAPingToTheGatewayAndItsAnswer) {
  activate({kMergeable});
  offer_buffers(8);
  ping_gateway();
  const auto answer = receive();
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->size(), 12U + 14 + 20 + 64);
  EXPECT_EQ((*answer)[12 + 14 + 9], std::byte{1});   // ICMP
  EXPECT_EQ((*answer)[12 + 14 + 20], std::byte{0});  // echo reply
}

TEST_F(NicTest, KeepsFramesUntilTheGuestHasBuffers) {
  activate({kMergeable});
  for (int i = 0; i < 3; ++i) {
    ping_gateway();
    pollfd entry{interrupt.fd(), POLLIN, 0};
    while (!tx->take_used()) ASSERT_EQ(::poll(&entry, 1, kPatience), 1);
    sys::drain_event(interrupt.fd());
  }
  offer_buffers(8);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(receive()) << i;
}

TEST_F(NicTest, LeavesChecksumsToADriverThatTakesThem) {
  activate({kMergeable, kGuestChecksum});
  offer_buffers(8);
  connect_somewhere();
  const auto reset = receive();
  ASSERT_TRUE(reset);
  EXPECT_EQ((*reset)[0], std::byte{virtio::kNeedsChecksum});
}

TEST_F(NicTest, MakesChecksumsForADriverThatDoesNot) {
  activate({kMergeable, kGuestChecksum});
  activate({kMergeable});  // the driver before asked for more
  offer_buffers(8);
  connect_somewhere();
  const auto reset = receive();
  ASSERT_TRUE(reset);
  EXPECT_EQ((*reset)[0], std::byte{0});
}

TEST_F(NicTest, StartsAgainAfterAReset) {
  for (int round = 0; round < 3; ++round) {
    activate({kMergeable});
    next_buffer = seen = 0;
    offer_buffers(8);
    ping_gateway();
    EXPECT_TRUE(receive()) << round;
  }
}

// Frames wait that the guest has no buffers for: poll(2) would tell of them as often as it is
// asked.
TEST_F(NicTest, RestsWhileTheGuestHasNoBuffers) {
  activate({kMergeable});
  for (int i = 0; i < 3; ++i) {
    ping_gateway();
    pollfd entry{interrupt.fd(), POLLIN, 0};
    while (!tx->take_used()) ASSERT_EQ(::poll(&entry, 1, kPatience), 1);
    sys::drain_event(interrupt.fd());
  }
  EXPECT_LT(waits_in_20_ms(), 20);
  offer_buffers(8);
  EXPECT_TRUE(receive());
}

TEST_F(NicTest, DropsFramesOfAnotherCard) {
  activate({kMergeable});
  offer_buffers(8);
  ping_gateway();
  ASSERT_TRUE(receive());
  while (!tx->take_used()) {
  }
  const auto refused = [&] {
    return slot->with_lock([&] {
      return nic->device().refused()[static_cast<size_t>(virtio::FrameFault::ForeignMac)];
    });
  };
  EXPECT_EQ(refused(), 0U);
  ASSERT_TRUE(memory.write_value<uint8_t>({kOutgoing + 12 + 11}, 9));
  tx->add({{kOutgoing, 12 + 14 + 84, false}});
  kick(Net::kTransmitQueue);
  pollfd entry{interrupt.fd(), POLLIN, 0};
  while (!tx->take_used()) ASSERT_EQ(::poll(&entry, 1, kPatience), 1);
  EXPECT_EQ(refused(), 1U);
}

// A link that has hung up, or is none, is told of as often.
TEST(Nic, RestsWithoutALink) {
  const memory::GuestMemory memory = memory::GuestMemory::create(1 << 20);
  auto [link, other] = sys::socket_pair(sys::SocketType::SeqPacket);
  sys::set_nonblocking(link.get());
  other.reset();
  const net::GuestAddresses addresses;
  std::optional<Nic> nic(
      std::in_place, std::move(link),
      proto::MonitorNic{addresses.guest_mac, addresses.guest4, addresses.guest6, 1500});
  DeviceSlot slot(memory, nic->device(), memory::GuestAddress{0}, 5, [](uint32_t) {});
  nic->attach(slot);
  const int before = waits;
  nic->start({[] {}, [](const std::string& why) { FAIL() << why; }});
  while (waits == before) std::this_thread::yield();
  EXPECT_LT(waits_in_20_ms(), 20);
  nic.reset();  // the thread first: it uses the slot
}

}
}

// The linker sends the card's thread here.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
int __real_ppoll(pollfd* entries, nfds_t count, const timespec* time, const sigset_t* mask);
int __wrap_ppoll(pollfd* entries, nfds_t count, const timespec* time, const sigset_t* mask) {
  ++mvm::monitor::waits;
  return __real_ppoll(entries, count, time, mask);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}
