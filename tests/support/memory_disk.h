#pragma once
// A disk in memory that counts what is asked of it and can be told to fail.

#include <cstring>
#include <vector>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"
#include "mvm/virtio/block.h"

namespace mvm::test {

class MemoryDisk : public virtio::BlockBackend {
 public:
  explicit MemoryDisk(size_t size) : bytes(size) {}

  virtio::BlockResult read(uint64_t offset, std::span<const iovec> into) noexcept override {
    ++reads;
    return move(offset, into, false);
  }
  virtio::BlockResult write(uint64_t offset, std::span<const iovec> from) noexcept override {
    ++writes;
    return move(offset, from, true);
  }
  virtio::BlockResult flush() noexcept override {
    ++flushes;
    return failing ? virtio::BlockResult::Failed : virtio::BlockResult::Ok;
  }

  std::vector<std::byte> bytes;
  bool failing = false;
  int reads = 0;
  int writes = 0;
  int flushes = 0;

 private:
  virtio::BlockResult move(uint64_t offset, std::span<const iovec> segments, bool in) noexcept {
    if (failing) return virtio::BlockResult::Failed;
    for (const iovec& segment : segments) {
      // The device promises to stay within the capacity.
      MVM_ASSERT(in_bounds(offset, segment.iov_len, bytes.size()));
      if (in)
        std::memcpy(bytes.data() + offset, segment.iov_base, segment.iov_len);
      else
        std::memcpy(segment.iov_base, bytes.data() + offset, segment.iov_len);
      offset += segment.iov_len;
    }
    return virtio::BlockResult::Ok;
  }
};

}
