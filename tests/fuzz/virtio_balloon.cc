// A balloon's driver, mostly a good one, that inflates, reports, leaves statistics, writes its
// configuration and resets. Only whole pages of guest memory are ever released; every request is
// answered, but for the one buffer of statistics that waits.

#include <vector>

#include "mvm/virtio/balloon.h"

#include "input.h"
#include "support/active_device.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kMemory = 4 << 20;
constexpr uint64_t kData = 0x40000;
constexpr uint64_t kFree = 0x100000;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(kMemory);
  return memory;
}

class Sink : public PageSink {
 public:
  void release(std::span<std::byte> pages) noexcept override {
    const auto offset = static_cast<uint64_t>(pages.data() - guest_memory().regions()[0].host);
    MVM_ASSERT(!pages.empty() && offset % Balloon::kPage == 0 &&
               pages.size() % Balloon::kPage == 0);
    MVM_ASSERT(offset < kMemory && pages.size() <= kMemory - offset);
    ++calls;
  }
  uint64_t calls = 0;
};

uint32_t write_pages(fuzz::Input& in, test::DriverQueue& driver) {
  const uint32_t count = 1 + in.below(64);
  const uint32_t first = in.below(kMemory / Balloon::kPage);
  for (uint32_t i = 0; i < count; ++i)
    driver.put<uint32_t>(kData + 4 * i, in.rarely(8) ? in.u32() : first + i);
  return in.rarely(16) ? in.below(0x8000) : 4 * count;
}

uint32_t write_statistics(fuzz::Input& in, test::DriverQueue& driver) {
  const uint32_t count = in.below(12);
  for (uint32_t i = 0; i < count; ++i) {
    driver.put<uint16_t>(kData + 10 * i, static_cast<uint16_t>(in.rarely(8) ? in.u16() : i));
    driver.put<uint64_t>(kData + 10 * i + 2, in.u64());
  }
  return in.rarely(16) ? in.below(0x8000) : 10 * count;
}

std::vector<test::Buffer> report(fuzz::Input& in) {
  std::vector<test::Buffer> buffers;
  for (uint32_t left = 1 + in.below(4); left > 0; --left) {
    test::Buffer buffer{kFree + Balloon::kPage * in.below(512),
                        static_cast<uint32_t>(Balloon::kPage) * (1 + in.below(256)),
                        !in.rarely(16)};
    if (in.rarely(8)) buffer.address += in.u16();
    if (in.rarely(8)) buffer.length = in.u16();
    buffers.push_back(buffer);
  }
  return buffers;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Sink sink;
  Balloon balloon(guest_memory(), sink, !in.rarely(4));
  const Features features(balloon.features().bits() & ~(in.rarely(4) ? in.u64() : 0));
  test::ActiveDevice active(guest_memory(), balloon, features);

  for (int steps = 0; steps < 64 && !in.empty(); ++steps) {
    const auto index =
        static_cast<uint16_t>(in.below(static_cast<uint32_t>(active.drivers.size())));
    test::DriverQueue& driver = active.drivers[index];
    std::vector<test::Buffer> buffers;
    switch (in.rarely(8) ? in.below(4) : index) {
      case 2:
        buffers = {{kData, write_statistics(in, driver), in.rarely(16)}};
        break;
      case 3:
        buffers = report(in);
        break;
      default:
        buffers = {{kData, write_pages(in, driver), in.rarely(16)}};
    }
    if (driver.free_descriptors() < buffers.size()) break;
    driver.add(buffers);
    if (in.rarely(64)) driver.publish(in.u16());
    while (balloon.process(index) == Progress::More) {
    }
    if (in.rarely(4)) balloon.request_statistics();
    if (in.rarely(8)) balloon.set_target(in.u64());
    const uint64_t value = in.rarely(4) ? in.u64() : 0;
    if (value != 0)
      balloon.write_config(in.below(24), std::as_bytes(std::span(&value, 1)).first(4));
    MVM_ASSERT(balloon.actual() <= kMemory && balloon.target() <= kMemory);
    MVM_ASSERT(sink.calls <= 64U * 1024);
    if (balloon.take_effects().fault) break;
    while (driver.take_used()) {
    }
  }
  return 0;
}
