// Disk requests, mostly well formed, against the block core. The memory disk aborts on any access
// beyond its end; a read-only disk is never written; every answer has a status.

#include <algorithm>
#include <vector>

#include "mvm/virtio/block.h"

#include "input.h"
#include "support/active_device.h"
#include "support/memory_disk.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kMemory = 4 << 20;
constexpr uint64_t kHeader = 0x40000;
constexpr uint64_t kStatus = 0x48000;
constexpr uint64_t kData = 0x50000;
constexpr uint8_t kUntouched = 0xee;

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

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const Access access = in.rarely(3) ? Access::ReadOnly : Access::ReadWrite;
  const uint64_t sectors = in.below(128);
  test::MemoryDisk disk(sectors * kSectorSize);
  Block block({.capacity = disk.bytes.size() + in.below(512), .access = access, .serial = "fuzz"},
              disk);
  test::ActiveDevice active(guest_memory(), block, Features(in.rarely(2) ? 0 : 1U << 9));
  test::DriverQueue& driver = active.drivers[0];

  for (int steps = 0; steps < 64 && !in.empty(); ++steps) {
    static constexpr uint32_t kTypes[] = {0, 1, 4, 8};
    const uint32_t type = in.rarely(8) ? in.u32() : kTypes[in.below(4)];
    uint64_t sector = in.below(static_cast<uint32_t>(sectors) + 1);
    if (in.rarely(8)) sector = in.u64();
    uint32_t length = type == 8 ? 20 : kSectorSize * in.below(8);
    if (in.rarely(8)) length = in.below(0x10000);
    driver.put<uint32_t>(kHeader, type);
    driver.put<uint64_t>(kHeader + 8, sector);
    driver.put<uint8_t>(kStatus, kUntouched);
    std::vector<test::Buffer> buffers;
    const uint32_t header = in.rarely(16) ? in.below(16) : 16;
    cut(in, buffers, kHeader, header, false);
    if (type != 4) cut(in, buffers, kData, length, type != 1);
    const bool with_status = !in.rarely(16);
    if (with_status) buffers.push_back({kStatus, 1, true});
    const bool writable = std::any_of(buffers.begin(), buffers.end(),
                                      [](const test::Buffer& b) { return b.writable; });
    uint64_t room = 0;
    for (const test::Buffer& buffer : buffers) room += buffer.writable ? buffer.length : 0;
    if (buffers.empty() || driver.free_descriptors() < buffers.size()) break;
    disk.failing = in.rarely(16);
    driver.add(buffers);
    const bool stray = in.rarely(32);
    if (stray) driver.publish(in.u16());
    while (block.process(0) == Progress::More) {
    }
    if (access == Access::ReadOnly) MVM_ASSERT(disk.writes == 0);
    // A stray head may name an old chain: then there is one answer more than was asked for.
    if (block.take_effects().fault || stray) break;
    const auto used = driver.take_used();
    MVM_ASSERT(used && used->length <= room);
    const auto status = driver.get<uint8_t>(kStatus);
    if (with_status) MVM_ASSERT(status <= 2);
    if (!writable) MVM_ASSERT(used->length == 0);
    if (!with_status || header < 16) continue;
    const bool known = std::ranges::find(kTypes, type) != std::end(kTypes);
    MVM_ASSERT(known == (status != 2));
    if (type == 1 && access == Access::ReadOnly) MVM_ASSERT(status == 1);
  }
  return 0;
}
