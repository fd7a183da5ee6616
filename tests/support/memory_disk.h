#pragma once
// A disk in memory as an engine: it carries operations out when it is told to, in any order, counts
// them, and can be told to fail.

#include <cstring>
#include <deque>
#include <vector>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"
#include "mvm/virtio/block.h"

namespace mvm::test {

class MemoryDisk : public virtio::BlockEngine {
 public:
  explicit MemoryDisk(size_t size) : bytes(size) {}

  void submit(const virtio::BlockOperation& operation) noexcept override {
    MVM_ASSERT(operation.tag < virtio::Block::kMaxInFlight);
    for (const auto& other : waiting) MVM_ASSERT(other.tag != operation.tag);
    // The device promises to stay within the capacity, and that the segments are the length.
    MVM_ASSERT(in_bounds(operation.offset, operation.length, bytes.size()));
    const bool moves =
        operation.verb == virtio::BlockVerb::Read || operation.verb == virtio::BlockVerb::Write;
    uint64_t length = 0;
    for (const iovec& segment : operation.segments) length += segment.iov_len;
    MVM_ASSERT(length == (moves ? operation.length : 0));
    MVM_ASSERT((operation.length == 0) == (operation.verb == virtio::BlockVerb::Flush));
    waiting.push_back(operation);
  }
  void drain() noexcept override {
    ++drains;
    waiting.clear();
  }

  // Carries out the `index`th of the operations that wait, and answers it.
  void finish(virtio::Block& device, size_t index = 0) {
    const virtio::BlockOperation operation = waiting.at(index);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
    device.complete(operation.tag, run(operation));
  }
  void finish_all(virtio::Block& device) {
    while (!waiting.empty()) finish(device);
  }

  std::vector<std::byte> bytes;
  std::deque<virtio::BlockOperation> waiting;
  bool failing = false;
  int reads = 0;
  int writes = 0;
  int flushes = 0;
  int discards = 0;
  int zeroes = 0;
  int drains = 0;

 private:
  virtio::BlockResult run(const virtio::BlockOperation& operation) noexcept {
    using virtio::BlockVerb;
    switch (operation.verb) {
      case BlockVerb::Read:
        ++reads;
        break;
      case BlockVerb::Write:
        ++writes;
        break;
      case BlockVerb::Flush:
        ++flushes;
        break;
      case BlockVerb::Discard:
        ++discards;
        break;
      case BlockVerb::Zero:
        ++zeroes;
        break;
    }
    if (failing) return virtio::BlockResult::Failed;
    if (operation.verb == BlockVerb::Discard || operation.verb == BlockVerb::Zero)
      std::memset(bytes.data() + operation.offset, 0, operation.length);
    uint64_t offset = operation.offset;
    for (const iovec& segment : operation.segments) {
      if (operation.verb == BlockVerb::Write)
        std::memcpy(bytes.data() + offset, segment.iov_base, segment.iov_len);
      else
        std::memcpy(segment.iov_base, bytes.data() + offset, segment.iov_len);
      offset += segment.iov_len;
    }
    return virtio::BlockResult::Ok;
  }
};

}
