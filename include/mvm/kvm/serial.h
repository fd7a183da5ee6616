#pragma once
// A 16550A UART without a line: what is transmitted goes to a sink at once, nothing is ever
// received. Distribution kernels print to it before, and instead of, their virtio console.

#include <array>
#include <cstdint>
#include <functional>

#include "mvm/base/bytes.h"

namespace mvm::kvm {

class Serial {
 public:
  // `transmit` takes what the guest sends; `interrupt` is an edge on the UART's line. Both without
  // exceptions.
  Serial(std::function<void(ByteView)> transmit, std::function<void()> interrupt)
      : transmit_(std::move(transmit)), interrupt_(std::move(interrupt)) {}

  // `offset` is 0 to 7, from the first port.
  uint8_t read(uint16_t offset) noexcept;
  void write(uint16_t offset, uint8_t value) noexcept;

 private:
  std::function<void(ByteView)> transmit_;
  std::function<void()> interrupt_;
  uint8_t interrupt_enable_ = 0;
  uint8_t line_control_ = 0;
  uint8_t modem_control_ = 0;
  uint8_t scratch_ = 0;
  uint8_t divisor_low_ = 12;  // 9600 baud
  uint8_t divisor_high_ = 0;
  bool fifo_ = false;
  bool transmit_interrupt_ = false;
  bool looped_full_ = false;  // loopback holds one byte, for drivers that test it
  uint8_t looped_ = 0;
};

}
