// An entropy device's driver: buffers of any shape. What is filled lies in guest memory, is bounded
// a request, and is what the used ring says.

#include <vector>

#include "mvm/virtio/rng.h"

#include "input.h"
#include "support/active_device.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kMemory = 4 << 20;
constexpr uint64_t kData = 0x40000;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(kMemory);
  return memory;
}

class Source : public EntropySource {
 public:
  explicit Source(fuzz::Input& in) : in_(in) {}
  bool fill(std::span<std::byte> into) noexcept override {
    const auto offset = static_cast<uint64_t>(into.data() - guest_memory().regions()[0].host);
    MVM_ASSERT(!into.empty() && offset < kMemory && into.size() <= kMemory - offset);
    if (in_.rarely(32)) return false;
    into.front() = into.back() = std::byte{0x5a};
    given += into.size();
    return true;
  }
  uint64_t given = 0;

 private:
  fuzz::Input& in_;
};

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Source source(in);
  Rng rng(source);
  test::ActiveDevice active(guest_memory(), rng);
  test::DriverQueue& driver = active.drivers[0];
  for (int steps = 0; steps < 64 && !in.empty(); ++steps) {
    std::vector<test::Buffer> buffers;
    for (uint32_t left = 1 + in.below(4); left > 0; --left) {
      test::Buffer buffer{kData + in.below(0x10000), in.below(in.rarely(8) ? 0x40000 : 256),
                          !in.rarely(8)};
      if (in.rarely(32)) buffer.address = in.u64();
      if (in.rarely(32)) buffer.length = 0xffff'ffff;
      buffers.push_back(buffer);
    }
    if (driver.free_descriptors() < buffers.size()) break;
    driver.add(buffers);
    const bool honest = !in.rarely(64);
    if (!honest) driver.publish(in.u16());
    const uint64_t before = source.given;
    while (rng.process(0) == Progress::More) {
    }
    if (rng.take_effects().fault) break;
    uint64_t said = 0;
    while (const auto used = driver.take_used()) {
      MVM_ASSERT(used->length <= Rng::kMaxRequestBytes);
      said += used->length;
    }
    if (honest) MVM_ASSERT(said <= source.given - before);
  }
  return 0;
}
