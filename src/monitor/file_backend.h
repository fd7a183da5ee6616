#pragma once

#include "mvm/sys/fd.h"
#include "mvm/virtio/block.h"

namespace mvm::monitor {

// A disk kept in a regular file. Transfers go straight between the file and guest memory.
class FileBackend : public virtio::BlockBackend {
 public:
  explicit FileBackend(sys::Fd file) : file_(std::move(file)) {}

  virtio::BlockResult read(uint64_t offset, std::span<const iovec> into) noexcept override;
  virtio::BlockResult write(uint64_t offset, std::span<const iovec> from) noexcept override;
  virtio::BlockResult flush() noexcept override;

 private:
  sys::Fd file_;
};

}
