// A driver that is mostly correct, and now and then not, against the virtqueue core. Whatever it
// does, a popped chain lies within guest memory and within its bounds, and a dead queue stays dead.

#include <algorithm>
#include <vector>

#include "mvm/memory/guest_memory.h"
#include "mvm/virtio/queue.h"

#include "input.h"
#include "support/driver_queue.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kMemory = 1 << 20;
constexpr uint64_t kRing = 0x10000;
constexpr uint64_t kData = 0x40000;
constexpr uint64_t kTable = 0x80000;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(kMemory);
  return memory;
}

void check_segments(ChainCursor cursor, uint64_t length) {
  std::array<iovec, kMaxQueueSize> room;
  const std::byte* start = guest_memory().slice({0}, kMemory)->data();
  uint64_t total = 0;
  for (const iovec& segment : cursor.gather(UINT64_MAX, room)) {
    const auto* base = static_cast<const std::byte*>(segment.iov_base);
    MVM_ASSERT(segment.iov_len > 0);
    MVM_ASSERT(base >= start && base + segment.iov_len <= start + kMemory);
    total += segment.iov_len;
  }
  MVM_ASSERT(total == length && cursor.remaining() == length);
}

Descriptor corrupt(fuzz::Input& in, Descriptor descriptor) {
  switch (in.below(5)) {
    case 0:
      descriptor.address = in.rarely(2) ? in.u64() : kMemory - in.below(64);
      break;
    case 1:
      descriptor.length = in.rarely(2) ? in.u32() : in.below(40);
      break;
    case 2:
      descriptor.flags = in.u16();
      break;
    case 3:
      descriptor.next = in.u16();
      break;
    default:
      descriptor.flags ^= static_cast<uint16_t>(1U << in.below(3));
  }
  return descriptor;
}

void add_chain(fuzz::Input& in, test::DriverQueue& driver) {
  const size_t count = 1 + in.below(6);
  const size_t readable = in.below(static_cast<uint32_t>(count) + 1);
  std::vector<test::Buffer> buffers;
  for (size_t i = 0; i < count; ++i)
    buffers.push_back({kData + 16 * in.below(4096), in.below(512), i >= readable});
  const bool indirect = in.rarely(3);
  const size_t direct = indirect ? in.below(static_cast<uint32_t>(count)) : count;
  if (driver.free_descriptors() < direct + 1) return;
  const uint16_t head =
      indirect ? driver.add_indirect(buffers, kTable, direct) : driver.add(buffers);
  if (in.rarely(8)) {
    const uint16_t index = in.rarely(2) ? static_cast<uint16_t>(in.below(driver.size())) : head;
    const uint64_t at = driver.descriptors() + sizeof(Descriptor) * index;
    driver.put(at, corrupt(in, driver.get<Descriptor>(at)));
  }
  if (indirect && in.rarely(8)) {
    const uint64_t at = kTable + sizeof(Descriptor) * in.below(8);
    driver.put(at, corrupt(in, driver.get<Descriptor>(at)));
  }
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const auto queue_size = static_cast<uint16_t>(1U << in.below(9));
  test::DriverQueue driver(guest_memory(), kRing, queue_size);
  QueueRegisters registers = driver.registers();
  const uint16_t start = in.rarely(2) ? static_cast<uint16_t>(65535 - in.below(4)) : 0;
  driver.start_at(start);
  if (in.rarely(8)) registers.size = in.u32();
  if (in.rarely(8)) registers.descriptor_area.value = in.u64();
  if (in.rarely(8)) registers.driver_area.value = in.u64();
  if (in.rarely(8)) registers.device_area.value = kMemory - in.below(4096);
  const Features features = in.rarely(3) ? Features().with(kFeatureVersion1) : kRingFeatures;
  auto active = Queue::activate(guest_memory(), registers, features, {start, start});
  if (!active) return 0;
  Queue queue = std::move(*active);

  Chain chain;
  std::vector<uint16_t> popped;
  bool dead = false;
  for (int steps = 0; steps < 256 && !in.empty(); ++steps) {
    switch (in.below(8)) {
      case 0:
      case 1:
        add_chain(in, driver);
        break;
      case 2:
      case 3: {
        const auto got = queue.pop(chain);
        MVM_ASSERT(!dead || !got);
        dead = !got;
        if (!got || !*got) break;
        check_segments(chain.reader(), chain.readable_length());
        check_segments(chain.writer(), chain.writable_length());
        MVM_ASSERT(chain.readable_length() + chain.writable_length() <= uint64_t{4} << 30);
        MVM_ASSERT(std::find(popped.begin(), popped.end(), chain.head()) == popped.end());
        if (in.rarely(4)) {
          queue.put_back(chain);
        } else {
          chain.writer().write(std::as_bytes(std::span("bytes for the guest")));
          popped.push_back(chain.head());
        }
        break;
      }
      case 4: {
        if (popped.empty()) break;
        const auto which = popped.begin() + in.below(static_cast<uint32_t>(popped.size()));
        queue.push(*which, in.u32());
        popped.erase(which);
        if (!in.rarely(4)) driver.take_used();
        break;
      }
      case 5:
        static_cast<void>(queue.should_notify());
        break;
      case 6:
        if (in.rarely(2)) queue.disable_notifications();
        static_cast<void>(queue.enable_notifications());
        break;
      default:
        if (in.rarely(8)) driver.set_avail_index(in.u16());
        if (in.rarely(8)) driver.publish(in.u16());
        driver.set_used_event(in.u16());
    }
    MVM_ASSERT(queue.in_flight() == popped.size() && popped.size() <= queue.size());
  }
  return 0;
}
