// A console's driver and the host's keyboard, in any order: output of any shape, buffers for input,
// resizes. What goes out lies in guest memory and is bounded a buffer, and what waits for the
// driver is bounded.

#include <vector>

#include "mvm/virtio/console.h"

#include "input.h"
#include "support/active_device.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kMemory = 4 << 20;
constexpr uint64_t kOutput = 0x40000;
constexpr uint64_t kKeys = 0x200000;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(kMemory);
  return memory;
}

class Sink : public ConsoleSink {
 public:
  void write(ByteView data) noexcept override {
    MVM_ASSERT(!data.empty() && data.size() <= Console::kMaxOutputBytes);
    // Read to its end, where a sanitizer watches.
    for (const std::byte byte : data) sum += std::to_integer<uint64_t>(byte);
    taken += data.size();
  }
  uint64_t taken = 0;
  uint64_t sum = 0;
};

std::vector<test::Buffer> buffers_for(fuzz::Input& in, uint64_t base, bool writable) {
  std::vector<test::Buffer> buffers;
  for (uint32_t left = 1 + in.below(4); left > 0; --left) {
    test::Buffer buffer{base + in.below(0x10000), in.below(in.rarely(8) ? 0x20000 : 64), writable};
    if (in.rarely(16)) buffer.writable = !writable;
    if (in.rarely(32)) buffer.address = in.u64();
    buffers.push_back(buffer);
  }
  return buffers;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Sink sink;
  Console console(sink);
  test::ActiveDevice active(guest_memory(), console,
                            in.rarely(4) ? Features() : console.features());
  uint64_t buffers = 0;
  for (int steps = 0; steps < 64 && !in.empty(); ++steps) {
    switch (in.below(4)) {
      case 0: {
        std::vector<std::byte> keys(in.below(in.rarely(8) ? 2 * Console::kInputCapacity : 16),
                                    std::byte{'k'});
        const size_t room = console.input_space();
        MVM_ASSERT(console.input(keys) == std::min(room, keys.size()));
        break;
      }
      case 1:
        console.resize(in.u16(), in.u16());
        break;
      default: {
        const uint16_t index = in.rarely(2) ? Console::kReceiveQueue : Console::kTransmitQueue;
        test::DriverQueue& driver = active.drivers[index];
        const bool receive = index == Console::kReceiveQueue;
        const auto added = buffers_for(in, receive ? kKeys : kOutput, receive);
        if (driver.free_descriptors() < added.size()) break;
        driver.add(added);
        ++buffers;
        if (in.rarely(64)) driver.publish(in.u16());
        while (console.process(index) == Progress::More) {
        }
      }
    }
    MVM_ASSERT(console.input_space() <= Console::kInputCapacity);
    // The 16 of a queue besides, that a driver may have published anew.
    MVM_ASSERT(sink.taken <= (buffers + 16) * Console::kMaxOutputBytes);
    if (console.take_effects().fault) break;
    for (test::DriverQueue& driver : active.drivers)
      while (driver.take_used()) {
      }
  }
  return 0;
}
