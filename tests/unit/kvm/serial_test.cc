// The UART, driven as a kernel's 8250 driver drives it.
#include "mvm/kvm/serial.h"

#include <string>

#include <gtest/gtest.h>

namespace mvm::kvm {

constexpr uint16_t kData = 0, kIer = 1, kIir = 2, kFcr = 2, kLcr = 3, kMcr = 4, kLsr = 5, kMsr = 6,
                   kScr = 7;

struct SerialPort : testing::Test {
  std::string sent;
  int interrupts = 0;
  Serial uart{[this](ByteView bytes) { sent += as_text(bytes); }, [this] { ++interrupts; }};
};

TEST_F(SerialPort, TransmitsAtOnce) {
  for (const char c : {'h', 'i'}) {
    ASSERT_EQ(uart.read(kLsr) & 0x60, 0x60);  // always ready
    uart.write(kData, static_cast<uint8_t>(c));
  }
  EXPECT_EQ(sent, "hi");
  EXPECT_EQ(interrupts, 0);  // nobody asked
}

TEST_F(SerialPort, SaysThatTheTransmitterIsEmptyWhenAsked) {
  uart.write(kIer, 2);
  EXPECT_EQ(interrupts, 1);
  EXPECT_EQ(uart.read(kIir) & 0x0f, 2);
  EXPECT_EQ(uart.read(kIir) & 0x0f, 1);  // reading took it
  uart.write(kData, 'x');
  EXPECT_EQ(interrupts, 2);
  EXPECT_EQ(uart.read(kIir) & 0x0f, 2);
}

TEST_F(SerialPort, NamesNoCauseThatIsSwitchedOff) {
  uart.write(kData, 'x');
  EXPECT_EQ(uart.read(kIir) & 0x0f, 1);
  uart.write(kIer, 2);
  uart.write(kIer, 0);
  EXPECT_EQ(uart.read(kIir) & 0x0f, 1);
}

// What the driver does to find out whether it needs a timer instead of interrupts
// (serial8250_THRE_test): the interrupt must be there again when it is switched off and on.
TEST_F(SerialPort, AssertsTheInterruptAgainWhenReenabled) {
  uart.write(kIer, 2);
  EXPECT_EQ(uart.read(kIir) & 1, 0);
  uart.write(kIer, 0);
  uart.write(kIer, 2);
  EXPECT_EQ(uart.read(kIir) & 1, 0);
  EXPECT_EQ(interrupts, 2);
}

TEST_F(SerialPort, IsFoundToBeA16550A) {
  uart.write(kIer, 0);
  EXPECT_EQ(uart.read(kIer), 0);
  uart.write(kIer, 0xff);
  EXPECT_EQ(uart.read(kIer), 0x0f);  // the upper bits do not exist
  uart.write(kIer, 0);
  uart.write(kFcr, 1);
  EXPECT_EQ(uart.read(kIir) >> 6, 3);
  uart.write(kFcr, 0);
  EXPECT_EQ(uart.read(kIir) >> 6, 0);
  uart.write(kScr, 0xa5);
  EXPECT_EQ(uart.read(kScr), 0xa5);
}

TEST_F(SerialPort, DivisorLatchHidesDataAndInterrupts) {
  uart.write(kLcr, 0x80);
  uart.write(kData, 1);
  uart.write(kIer, 2);
  EXPECT_EQ(uart.read(kData), 1);
  EXPECT_EQ(uart.read(kIer), 2);
  uart.write(kLcr, 3);
  EXPECT_EQ(uart.read(kIer), 0);
  EXPECT_EQ(sent, "");
  EXPECT_EQ(interrupts, 0);
  EXPECT_EQ(uart.read(kLcr), 3);
}

TEST_F(SerialPort, LoopbackKeepsBytesInAndTurnsTheLinesAround) {
  uart.write(kMcr, 0x10 | 0x0a);            // loop; RTS and OUT2
  EXPECT_EQ(uart.read(kMsr) & 0xf0, 0x90);  // CTS and DCD, as the driver's probe expects
  uart.write(kData, 'L');
  EXPECT_EQ(uart.read(kLsr) & 1, 1);
  EXPECT_EQ(uart.read(kData), 'L');
  EXPECT_EQ(uart.read(kLsr) & 1, 0);
  EXPECT_EQ(sent, "");
  uart.write(kMcr, 0);
  uart.write(kData, 'x');
  EXPECT_EQ(sent, "x");
  EXPECT_EQ(uart.read(kMsr), 0xb0);  // a line that is connected and ready
}

TEST_F(SerialPort, PortsBeyondAreNotThere) {
  for (const uint16_t offset : {uint16_t{8}, uint16_t{9}, uint16_t{0xffff}}) {
    uart.write(offset, 0x55);
    EXPECT_EQ(uart.read(offset), 0xff);
  }
  EXPECT_EQ(sent, "");
}

TEST_F(SerialPort, SurvivesEveryWriteToEveryRegister) {
  for (unsigned value = 0; value < 256; ++value)
    for (uint16_t offset = 0; offset < 8; ++offset) {
      uart.write(offset, static_cast<uint8_t>(value));
      for (uint16_t other = 0; other < 8; ++other) uart.read(other);
    }
  // And can be brought back from wherever that left it.
  uart.write(kLcr, 3);
  uart.write(kMcr, 0);
  uart.write(kIer, 0);
  sent.clear();
  uart.write(kData, 'x');
  EXPECT_EQ(sent, "x");
}

}
