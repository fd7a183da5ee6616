// A driver at the registers of the UART: every answer is a register's, each byte it sends goes out
// once.
#include <cstdlib>

#include "mvm/kvm/serial.h"

#include "input.h"

using namespace mvm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  size_t sent = 0;
  size_t written = 0;
  kvm::Serial serial([&](ByteView bytes) { sent += bytes.size(); }, [] {});
  while (!in.empty()) {
    const uint8_t choice = in.u8();
    const uint16_t offset = choice % 8;
    if (choice >= 128) {
      static_cast<void>(serial.read(offset));
      // The line has no other end: it is always free, and nothing ever comes unless it is looped
      // back.
      if ((serial.read(5) & 0x60) != 0x60) std::abort();
    } else {
      serial.write(offset, in.u8());
      if (offset == 0) ++written;
    }
    if (sent > written) std::abort();
  }
  return 0;
}
