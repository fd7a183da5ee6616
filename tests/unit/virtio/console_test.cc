// The console: output in order and bounded, input as far as there is room, size changes announced.

#include "mvm/virtio/console.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/active_device.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using test::Buffer;

constexpr uint64_t kData = 0x40000;
constexpr unsigned kSizeFeature = 0;

class TextSink : public ConsoleSink {
 public:
  void write(ByteView data) noexcept override { text += as_text(data); }
  std::string text;
};

class ConsoleTest : public testing::Test {
 protected:
  GuestMemory memory = GuestMemory::create(1 << 20);
  TextSink sink;
  Console device{sink, 100, 40};
  test::ActiveDevice active{memory, device, Features().with(kSizeFeature), 256};
  test::DriverQueue& receive = active.drivers[Console::kReceiveQueue];
  test::DriverQueue& transmit = active.drivers[Console::kTransmitQueue];

  std::string read(uint64_t at, size_t length) {
    std::string out(length, '\0');
    memory.read({at}, std::as_writable_bytes(std::span(out)));
    return out;
  }
};

TEST_F(ConsoleTest, OutputsAllPiecesInOrder) {
  memory.write({kData}, as_bytes("hello, world"));
  transmit.add({{kData, 5, false}, {kData + 5, 7, false}});
  EXPECT_EQ(device.process(Console::kTransmitQueue), Progress::Idle);
  EXPECT_EQ(sink.text, "hello, world");
  EXPECT_EQ(transmit.take_used()->length, 0U);
}

TEST_F(ConsoleTest, OneBufferCannotFloodTheSink) {
  transmit.add(std::vector<Buffer>(256, Buffer{0x20000, 0x80000, false}));
  device.process(Console::kTransmitQueue);
  EXPECT_EQ(sink.text.size(), Console::kMaxOutputBytes);
  EXPECT_TRUE(transmit.take_used());
}

TEST_F(ConsoleTest, InputWaitsForBuffersAndFillsThemAsTheyCome) {
  EXPECT_EQ(device.input(as_bytes("abcdefgh")), 8U);
  EXPECT_FALSE(receive.take_used());
  receive.add({{kData, 3, true}});
  device.process(Console::kReceiveQueue);
  EXPECT_EQ(receive.take_used()->length, 3U);
  EXPECT_EQ(read(kData, 3), "abc");
  receive.add({{kData, 100, true}});
  device.process(Console::kReceiveQueue);
  EXPECT_EQ(receive.take_used()->length, 5U);
  EXPECT_EQ(read(kData, 5), "defgh");
  EXPECT_TRUE(device.take_effects().used_buffers);
}

TEST_F(ConsoleTest, InputIsBounded) {
  const std::string much(Console::kInputCapacity + 100, 'x');
  EXPECT_EQ(device.input(as_bytes(much)), Console::kInputCapacity);
  EXPECT_EQ(device.input_space(), 0U);
  EXPECT_EQ(device.input(as_bytes("y")), 0U);
}

TEST_F(ConsoleTest, AReceiveBufferWithoutRoomIsAFault) {
  receive.add({{kData, 100, false}});
  device.input(as_bytes("x"));
  EXPECT_EQ(device.take_effects().fault, QueueFault::BufferTooSmall);
}

TEST_F(ConsoleTest, SizeIsReadAndChangesAreAnnounced) {
  uint16_t size[2];
  std::memcpy(size, device.config().data(), sizeof size);
  EXPECT_EQ(size[0], 100);
  EXPECT_EQ(size[1], 40);
  device.resize(200, 50);
  EXPECT_TRUE(device.take_effects().config_changed);
  std::memcpy(size, device.config().data(), sizeof size);
  EXPECT_EQ(size[0], 200);
  EXPECT_EQ(size[1], 50);
}

TEST_F(ConsoleTest, ADriverThatDoesNotWantTheSizeIsNotInterruptedForIt) {
  device.reset();
  device.activate(active.queues, kRingFeatures);
  device.resize(1, 1);
  EXPECT_FALSE(device.take_effects().config_changed);
}

TEST_F(ConsoleTest, ResetForgetsInput) {
  device.input(as_bytes("secret"));
  device.reset();
  EXPECT_EQ(device.input_space(), Console::kInputCapacity);
}

}
}
