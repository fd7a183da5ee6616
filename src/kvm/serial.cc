#include "mvm/kvm/serial.h"

namespace mvm::kvm {

enum Register : uint16_t {
  kData,
  kInterruptEnable,
  kInterruptId,
  kLineControl,
  kModemControl,
  kLineStatus,
  kModemStatus,
  kScratch
};

static constexpr uint8_t kDivisorLatch = 0x80;   // line control
static constexpr uint8_t kLoopback = 0x10;       // modem control
static constexpr uint8_t kTransmitEmpty = 0x02;  // interrupt enable, interrupt id

uint8_t Serial::read(uint16_t offset) noexcept {
  const bool latch = (line_control_ & kDivisorLatch) != 0;
  switch (offset) {
    case kData:
      if (latch) return divisor_low_;
      looped_full_ = false;
      return looped_;
    case kInterruptEnable:
      return latch ? divisor_high_ : interrupt_enable_;
    case kInterruptId: {
      constexpr uint8_t kNone = 1, kFifoOn = 0xc0;
      const bool asserted = transmit_interrupt_ && (interrupt_enable_ & kTransmitEmpty) != 0;
      const uint8_t cause = asserted ? kTransmitEmpty : kNone;
      transmit_interrupt_ = false;  // reading takes it
      return static_cast<uint8_t>(cause | (fifo_ ? kFifoOn : 0));
    }
    case kLineControl:
      return line_control_;
    case kModemControl:
      return modem_control_;
    case kLineStatus: {
      constexpr uint8_t kReady = 1, kHoldingAndShiftEmpty = 0x60;
      return static_cast<uint8_t>(kHoldingAndShiftEmpty | (looped_full_ ? kReady : 0));
    }
    case kModemStatus: {
      // In loopback the outputs come back as inputs: DTR as DSR, RTS as CTS, OUT1 as RI, OUT2 as
      // DCD.
      if ((modem_control_ & kLoopback) == 0) return 0xb0;
      const uint8_t out = modem_control_;
      return static_cast<uint8_t>((out & 1) << 5 | (out & 2) << 3 | (out & 4) << 4 |
                                  (out & 8) << 4);
    }
    case kScratch:
      return scratch_;
    default:
      return 0xff;
  }
}

void Serial::write(uint16_t offset, uint8_t value) noexcept {
  const bool latch = (line_control_ & kDivisorLatch) != 0;
  switch (offset) {
    case kData:
      if (latch) {
        divisor_low_ = value;
      } else if ((modem_control_ & kLoopback) != 0) {
        looped_ = value;
        looped_full_ = true;
      } else {
        const auto byte = static_cast<std::byte>(value);
        transmit_(ByteView(&byte, 1));
        transmit_interrupt_ = true;
        if ((interrupt_enable_ & kTransmitEmpty) != 0) interrupt_();
      }
      break;
    case kInterruptEnable:
      if (latch) {
        divisor_high_ = value;
      } else {
        const bool enabled = (value & ~interrupt_enable_ & kTransmitEmpty) != 0;
        interrupt_enable_ = value & 0x0f;
        if (enabled) {
          // The transmitter is always empty, so it says so when it is asked to.
          transmit_interrupt_ = true;
          interrupt_();
        }
      }
      break;
    case kInterruptId:
      fifo_ = (value & 1) != 0;
      break;  // FIFO control
    case kLineControl:
      line_control_ = value;
      break;
    case kModemControl:
      modem_control_ = value & 0x1f;
      break;
    case kScratch:
      scratch_ = value;
      break;
    default:
      break;
  }
}

}
