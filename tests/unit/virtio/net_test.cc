// The network device between a guest's driver and a port that stands for the TAP.

#include "mvm/virtio/net.h"

#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/active_device.h"
#include "support/frames.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using test::Buffer;
using test::Frame;

constexpr uint64_t kData = 0x100000;
constexpr size_t kHeader = sizeof(NetHeader);
constexpr uint16_t kMtu = 1500;
constexpr uint64_t kBeginnings = 4000;  // a second

constexpr unsigned kChecksum = 0;
constexpr unsigned kGuestChecksum = 1;
constexpr unsigned kGuestTso4 = 7;
constexpr unsigned kMergeable = 15;
constexpr unsigned kStatus = 16;

class FakePort : public FramePort {
 public:
  void send(std::span<const iovec> frame) noexcept override {
    Bytes all;
    for (const iovec& segment : frame)
      Writer(all).bytes({static_cast<const std::byte*>(segment.iov_base), segment.iov_len});
    sent.push_back(std::move(all));
  }
  std::optional<size_t> receive(std::span<const iovec> into) noexcept override {
    if (waiting.empty()) return std::nullopt;
    const Bytes frame = waiting.front();
    waiting.pop_front();
    size_t done = 0;
    for (const iovec& segment : into) {
      const size_t step = std::min(segment.iov_len, frame.size() - done);
      std::memcpy(segment.iov_base, frame.data() + done, step);
      done += step;
    }
    return done;
  }
  void set_offloads(const ReceiveOffloads& wanted) noexcept override { offloads = wanted; }
  // A frame of that many bytes, and its header.
  void arrive(size_t length) {
    Bytes frame(kHeader);
    for (size_t i = 0; i < length; ++i) frame.push_back(std::byte(i & 0xff));
    waiting.push_back(std::move(frame));
  }

  std::vector<Bytes> sent;
  std::deque<Bytes> waiting;
  ReceiveOffloads offloads;
};

class NetTest : public testing::Test {
 protected:
  explicit NetTest(Features extra = Features().with(kChecksum).with(kMergeable))
      : active(memory, device, extra, 256) {}
  // Puts header and frame into guest memory and offers them, cut as asked.
  void send(const Frame& frame, const std::vector<uint32_t>& cuts, NetHeader header = {}) {
    Bytes all;
    Writer out(all);
    out.put(header);
    out.bytes(frame.bytes);
    ASSERT_TRUE(memory.write({kData}, all));
    std::vector<Buffer> buffers;
    uint64_t at = 0;
    for (const uint32_t length : cuts) {
      buffers.push_back({kData + at, length, false});
      at += length;
    }
    buffers.push_back({kData + at, static_cast<uint32_t>(all.size() - at), false});
    tx.add(buffers);
    EXPECT_EQ(device.process(Net::kTransmitQueue), Progress::Idle);
  }

  static inline TokenBucket::Time now{};
  GuestMemory memory = GuestMemory::create(4 << 20);
  FakePort port;
  Net device{port, test::kOwner, kMtu, kBeginnings, [] { return now; }};
  test::ActiveDevice active;
  test::DriverQueue& rx = active.drivers[Net::kReceiveQueue];
  test::DriverQueue& tx = active.drivers[Net::kTransmitQueue];
};

TEST_F(NetTest, SendsAFrameHoweverItIsCut) {
  const Frame frame = Frame::tcp4(std::string(1000, 'x'));
  for (const auto& cuts : std::vector<std::vector<uint32_t>>{
           {}, {12}, {1, 1, 9}, {12, 14}, {12, 60, 100}, {30, 200}, {12, 1, 1, 1, 1, 1, 500}}) {
    port.sent.clear();
    send(frame, cuts);
    ASSERT_EQ(port.sent.size(), 1U);
    EXPECT_EQ(Bytes(port.sent[0].begin() + kHeader, port.sent[0].end()), frame.bytes);
    EXPECT_EQ(tx.take_used()->length, 0U);
  }
}

TEST_F(NetTest, KeepsWhatTheGateRefusesAndCountsIt) {
  send(Frame::tcp4().with(6, 9), {});
  send(Frame::tcp4(), {}, {.flags = 2});
  tx.add({{kData, 5, false}});  // less than a header
  device.process(Net::kTransmitQueue);
  EXPECT_TRUE(port.sent.empty());
  EXPECT_EQ(device.refused()[static_cast<size_t>(FrameFault::ForeignMac)], 1U);
  EXPECT_EQ(device.refused()[static_cast<size_t>(FrameFault::Offload)], 1U);
  EXPECT_EQ(device.refused()[static_cast<size_t>(FrameFault::Size)], 1U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(tx.take_used());  // the guest has its buffers back
}

// Each kind that begins something, as fast as it can; a connection that there is goes on meanwhile.
TEST_F(NetTest, SendsSoManyBeginningsASecond) {
  const auto flood = [&](const Frame& frame, uint64_t count) {
    const size_t before = port.sent.size();
    for (uint64_t i = 0; i < count; ++i) {
      send(frame, {});
      tx.take_used();
    }
    return port.sent.size() - before;
  };
  now += std::chrono::seconds(1);
  Frame echo = Frame::udp4(std::string(8, '\x08'));
  echo.with(14 + 9, 1);  // ICMP
  const std::vector<Frame> kinds{
      Frame::tcp4(), Frame::tcp6(), Frame::udp4("question"),
      echo,          Frame::arp(),  Frame::neighbour_solicitation("fd00::2")};
  constexpr uint8_t kAck = 16;
  const Frame segment4 = Frame::tcp4("data").with(14 + 20 + 13, kAck);
  const Frame segment6 = Frame::tcp6("data").with(14 + 40 + 13, kAck);
  for (const Frame& kind : kinds) {
    EXPECT_EQ(flood(kind, kBeginnings), kBeginnings);
    EXPECT_EQ(flood(kind, 100), 0U);
    for (const Frame& other : kinds) EXPECT_EQ(flood(other, 1), 0U);
    EXPECT_EQ(flood(segment4, 100), 100U);
    EXPECT_EQ(flood(segment6, 100), 100U);
    now += std::chrono::milliseconds(500);
    EXPECT_EQ(flood(kind, kBeginnings), kBeginnings / 2);
    now += std::chrono::seconds(60);
  }
  EXPECT_EQ(device.refused()[static_cast<size_t>(FrameFault::Rate)],
            kinds.size() * (100 + kinds.size() + kBeginnings / 2));
}

TEST_F(NetTest, SaysWhatIsTrueOfTheFrame) {
  send(Frame::tcp4(), {},
       {.flags = kNeedsChecksum, .checksum_start = 34, .checksum_offset = 16, .buffers = 7});
  NetHeader header;
  std::memcpy(&header, port.sent.at(0).data(), kHeader);
  EXPECT_EQ(header.flags, kNeedsChecksum);
  EXPECT_EQ(header.buffers, 0);
}

TEST_F(NetTest, SpreadsAFrameOverMergeableBuffers) {
  for (uint64_t i = 0; i < 8; ++i) rx.add({{kData + i * 0x1000, 300, true}});
  port.arrive(1000);
  // What is left holds many a frame, but not any.
  EXPECT_EQ(device.receive(), Net::Received::Starved);
  const std::vector<uint32_t> lengths{300, 300, 300, 112};
  for (const uint32_t length : lengths) EXPECT_EQ(rx.take_used()->length, length);
  EXPECT_FALSE(rx.take_used());
  EXPECT_EQ(rx.get<uint16_t>(kData + offsetof(NetHeader, buffers)), 4);
  EXPECT_EQ(rx.get<uint8_t>(kData + 299), static_cast<uint8_t>(299 - kHeader));
  EXPECT_EQ(rx.get<uint8_t>(kData + 0x1000), static_cast<uint8_t>(300 - kHeader));
  EXPECT_TRUE(device.take_effects().used_buffers);
  // The rest is used for the next one.
  port.arrive(100);
  for (uint64_t i = 8; i < 16; ++i) rx.add({{kData + i * 0x1000, 300, true}});
  EXPECT_EQ(device.receive(), Net::Received::Drained);
  EXPECT_EQ(rx.take_used()->length, 112U);
  EXPECT_EQ(rx.get<uint16_t>(kData + 4 * 0x1000 + offsetof(NetHeader, buffers)), 1);
}

TEST_F(NetTest, AHeaderCutIntoSegmentsIsFilledIn) {
  rx.add({{kData, 11, true}, {kData + 0x1000, 2000, true}});
  port.arrive(60);
  device.receive();
  EXPECT_EQ(rx.take_used()->length, 72U);
  EXPECT_EQ(rx.get<uint8_t>(kData + 10), 1);
  EXPECT_EQ(rx.get<uint8_t>(kData + 0x1000), 0);
  EXPECT_EQ(rx.get<uint8_t>(kData + 0x1001), 0);
  EXPECT_EQ(rx.get<uint8_t>(kData + 0x1002), 1);
}

TEST_F(NetTest, WaitsForBuffersAndLosesNothing) {
  port.arrive(100);
  EXPECT_EQ(device.receive(), Net::Received::Starved);
  rx.add({{kData, 600, true}});
  EXPECT_EQ(device.receive(), Net::Received::Starved);  // not enough for the longest frame
  EXPECT_EQ(port.waiting.size(), 1U);
  rx.add({{kData + 0x1000, 2000, true}});
  EXPECT_EQ(device.receive(), Net::Received::Drained);
  EXPECT_EQ(rx.take_used()->length, 112U);
}

TEST_F(NetTest, OneTurnIsBounded) {
  for (uint64_t i = 0; i < 200; ++i) rx.add({{kData + i * 0x800, 2000, true}});
  for (uint32_t i = 0; i < Net::kFramesPerTurn + 1; ++i) port.arrive(60);
  EXPECT_EQ(device.receive(), Net::Received::More);
  EXPECT_EQ(device.receive(), Net::Received::Drained);
}

TEST_F(NetTest, ABufferThatCannotHoldAHeaderIsAFault) {
  rx.add({{kData, 11, true}});
  port.arrive(60);
  EXPECT_EQ(device.receive(), Net::Received::Starved);
  EXPECT_EQ(device.take_effects().fault, QueueFault::BufferTooSmall);
}

// 256 segments of a byte, four times: more than one read takes, and less than a frame.
TEST_F(NetTest, TinySegmentsByTheThousandAreAFault) {
  for (int chain = 0; chain < 4; ++chain) {
    std::vector<Buffer> buffers(60, Buffer{kData, 1, true});
    rx.add(buffers);
  }
  port.arrive(60);
  EXPECT_EQ(device.receive(), Net::Received::Starved);
}

TEST_F(NetTest, IsIdleAfterReset) {
  rx.add({{kData, 2000, true}});
  port.arrive(60);
  device.reset();
  EXPECT_EQ(device.receive(), Net::Received::Starved);
  EXPECT_EQ(device.process(Net::kTransmitQueue), Progress::Idle);
  EXPECT_EQ(port.waiting.size(), 1U);
}

class StatusNetTest : public NetTest {
 protected:
  StatusNetTest() : NetTest(Features().with(kMergeable).with(kStatus)) {}
  uint16_t link() const {
    uint16_t status = 0;
    std::memcpy(&status, device.config().data() + 6, sizeof status);
    return status;
  }
};

TEST_F(StatusNetTest, TheLinkComesUpWithTheFirstBuffer) {
  EXPECT_EQ(link(), 0);
  device.receive();
  EXPECT_EQ(link(), 0);
  EXPECT_FALSE(device.take_effects().config_changed);
  rx.add({{kData, 300, true}});
  device.receive();
  EXPECT_EQ(link(), 1);
  EXPECT_TRUE(device.take_effects().config_changed);
  rx.add({{kData + 0x1000, 300, true}});
  device.receive();
  EXPECT_FALSE(device.take_effects().config_changed);
  device.reset();
  EXPECT_EQ(link(), 0);
}

TEST_F(NetTest, TellsTheDriverItsAddressAndMtu) {
  const ByteView config = device.config();
  ASSERT_EQ(config.size(), 12U);
  EXPECT_EQ(config[0], std::byte{2});
  EXPECT_EQ(config[5], std::byte{2});
  EXPECT_EQ(config[6], std::byte{0});  // the link is not up yet
  EXPECT_EQ(Reader(config.subspan(10)).u16(), kMtu);
}

class PlainNetTest : public NetTest {
 protected:
  PlainNetTest() : NetTest(Features()) {}
};

TEST_F(PlainNetTest, ABufferHoldsAWholeFrame) {
  EXPECT_EQ(port.offloads, ReceiveOffloads{});
  rx.add({{kData, 12 + 14 + kMtu - 1, true}});
  port.arrive(60);
  EXPECT_EQ(device.receive(), Net::Received::Starved);
  EXPECT_EQ(device.take_effects().fault, QueueFault::BufferTooSmall);
}

TEST_F(PlainNetTest, OneBufferAFrame) {
  rx.add({{kData, 12 + 14 + kMtu, true}});
  port.arrive(14 + kMtu);
  device.receive();
  EXPECT_EQ(rx.take_used()->length, 12U + 14 + kMtu);
  EXPECT_EQ(rx.get<uint16_t>(kData + 10), 1);
}

class TsoNetTest : public NetTest {
 protected:
  TsoNetTest() : NetTest(Features().with(kGuestChecksum).with(kGuestTso4).with(kMergeable)) {}
};

TEST_F(TsoNetTest, MakesRoomForTheLongestFrame) {
  EXPECT_EQ(port.offloads, (ReceiveOffloads{.checksum = true, .tso4 = true}));
  for (uint64_t i = 0; i < 40; ++i) rx.add({{kData + i * 4096, 4096, true}});
  port.arrive(kMaxFrame);
  EXPECT_EQ(device.receive(), Net::Received::Drained);
  EXPECT_EQ(rx.get<uint16_t>(kData + 10), (kMaxFrame + 12 + 4095) / 4096);
}

class DependentNetTest : public NetTest {
 protected:
  DependentNetTest() : NetTest(Features().with(kGuestTso4).with(9)) {}
};

TEST_F(DependentNetTest, AnOffloadWithoutWhatItNeedsIsNotThere) {
  EXPECT_EQ(port.offloads, ReceiveOffloads{});
}

}
}
