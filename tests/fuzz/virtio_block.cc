// Disk requests, mostly well formed, against the block core, with several in flight, answered in
// any order, resets in between. The memory disk aborts on anything beyond its end and on a tag used
// twice; a read-only disk is never changed; every answer has a status; none is lost.

#include <algorithm>
#include <map>
#include <vector>

#include "mvm/virtio/block.h"

#include "input.h"
#include "support/active_device.h"
#include "support/memory_disk.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kMemory = 4 << 20;
// A slot holds a request's header and status; data is shared, as hostile drivers may.
constexpr uint64_t kSlots = 0x40000;
constexpr uint64_t kSlotSize = 0x100;
constexpr uint64_t kData = 0x50000;
constexpr uint8_t kUntouched = 0xee;
constexpr uint32_t kIn = 0, kOut = 1, kFlush = 4, kGetId = 8, kDiscard = 11, kWriteZeroes = 13;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(kMemory);
  return memory;
}

// Cuts [at, at + length) into random descriptors.
void cut(fuzz::Input& in, std::vector<test::Buffer>& out, uint64_t at, uint32_t length,
         bool writable) {
  while (length > 0) {
    uint32_t piece = in.rarely(3) ? 1 + in.below(length) : length;
    piece = std::min(piece, length);
    out.push_back({at, piece, writable});
    at += piece;
    length -= piece;
    if (out.size() > 12) break;
  }
}

struct Asked {
  uint64_t status_at = 0;  // 0: without a status byte
  uint64_t room = 0;
};

class Driver {
 public:
  Driver(fuzz::Input& in, test::DriverQueue& queue, uint32_t sectors)
      : in_(in), queue_(queue), sectors_(sectors) {}

  // False: the queue has no descriptors left for it.
  bool ask() {
    static constexpr uint32_t kTypes[] = {kIn,      kOut,         kFlush, kGetId,
                                          kDiscard, kWriteZeroes, kOut,   kIn};
    const uint32_t type = in_.rarely(8) ? in_.u32() : kTypes[in_.below(8)];
    const uint64_t slot = kSlots + kSlotSize * (next_++ % 64);
    queue_.put<uint32_t>(slot, type);
    queue_.put<uint64_t>(slot + 8, sector());
    std::vector<test::Buffer> buffers;
    const uint32_t header = in_.rarely(16) ? in_.below(16) : 16;
    cut(in_, buffers, slot, header, false);
    payload(buffers, type);
    Asked asked;
    if (!in_.rarely(16)) {
      asked.status_at = slot + 32;
      buffers.push_back({asked.status_at, 1, true});
    }
    if (buffers.empty()) buffers.push_back({slot, 0, false});
    if (queue_.free_descriptors() < buffers.size()) return false;
    for (const test::Buffer& buffer : buffers) asked.room += buffer.writable ? buffer.length : 0;
    if (asked.status_at != 0) queue_.put<uint8_t>(asked.status_at, kUntouched);
    asked_[queue_.add(buffers)] = asked;
    return true;
  }

  void take_answers(bool may_be_wrong) {
    while (const auto used = queue_.take_used()) {
      const auto found = asked_.find(static_cast<uint16_t>(used->head));
      MVM_ASSERT(may_be_wrong || found != asked_.end());
      if (found == asked_.end()) continue;
      const Asked asked = found->second;
      asked_.erase(found);
      MVM_ASSERT(used->length <= asked.room);
      if (asked.status_at != 0) {
        const auto status = queue_.get<uint8_t>(asked.status_at);
        MVM_ASSERT(status <= 2);
      }
    }
  }
  bool all_answered() const { return asked_.empty(); }

 private:
  uint64_t sector() {
    if (in_.rarely(8)) return in_.u64();
    return in_.below(sectors_ + 1);
  }

  void payload(std::vector<test::Buffer>& buffers, uint32_t type) {
    if (type == kFlush) return;
    if (type == kDiscard || type == kWriteZeroes) {
      const uint64_t at = kData + 0x8000 + 16 * (next_ % 64);
      queue_.put<uint64_t>(at, sector());
      queue_.put<uint32_t>(at + 8, in_.rarely(8) ? in_.u32() : in_.below(16));
      queue_.put<uint32_t>(at + 12, in_.rarely(4) ? in_.u32() : in_.below(2));
      return cut(in_, buffers, at, in_.rarely(16) ? in_.below(64) : 16, false);
    }
    uint32_t length = type == kGetId ? 20 : kSectorSize * in_.below(8);
    if (in_.rarely(8)) length = in_.below(0x8000);
    cut(in_, buffers, kData, length, type != kOut);
  }

  fuzz::Input& in_;
  test::DriverQueue& queue_;
  uint32_t sectors_;
  uint32_t next_ = 0;
  std::map<uint16_t, Asked> asked_;
};

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const Access access = in.rarely(3) ? Access::ReadOnly : Access::ReadWrite;
  const uint32_t sectors = in.below(128);
  test::MemoryDisk disk(sectors * kSectorSize);
  RateLimit::Time now{std::chrono::hours(1)};
  Block block({.capacity = disk.bytes.size() + in.below(512),
               .access = access,
               .discard = !in.rarely(4),
               .serial = "fuzz",
               .limits = {.bytes_per_second = in.rarely(4) ? 1U + in.u16() : 0U,
                          .operations_per_second = in.rarely(4) ? 1U + in.u8() : 0U},
               .now = [&now] { return now; }},
              disk);
  const Features features(in.rarely(4) ? in.u16() : block.features().bits());
  test::ActiveDevice active(guest_memory(), block, features, 64);
  Driver driver(in, active.drivers[0], sectors);

  bool stray = false;
  for (int steps = 0; steps < 64 && !in.empty(); ++steps) {
    const bool room = driver.ask();
    // A stray head may name an old chain: then there is one answer more than was asked for.
    if (in.rarely(64)) {
      active.drivers[0].publish(in.u16());
      stray = true;
    }
    disk.failing = in.rarely(16);
    if (!room || in.rarely(2)) block.process(0);
    while (!disk.waiting.empty() && in.rarely(2))
      disk.finish(block, in.below(static_cast<uint32_t>(disk.waiting.size())));
    driver.take_answers(stray);
    if (const auto when = block.resume_at(); when && in.rarely(2)) now = *when;
    if (in.rarely(64)) {
      // What the driver had asked for is gone; the device stays quiet until it is activated again.
      block.reset();
      MVM_ASSERT(disk.waiting.empty() && block.in_flight() == 0);
      MVM_ASSERT(block.process(0) == Progress::Idle);
      return 0;
    }
    if (block.take_effects().fault || stray) return 0;
  }
  // In the end everything is answered, however long the limits take.
  for (int turns = 0; turns < 10'000 && !driver.all_answered(); ++turns) {
    block.process(0);
    disk.finish_all(block);
    if (block.take_effects().fault) return 0;
    driver.take_answers(false);
    if (const auto when = block.resume_at()) now = *when;
  }
  MVM_ASSERT(driver.all_answered());
  if (access == Access::ReadOnly) MVM_ASSERT(disk.writes + disk.discards + disk.zeroes == 0);
  return 0;
}
