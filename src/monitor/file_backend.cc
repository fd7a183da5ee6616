#include "file_backend.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/uio.h>
#include <unistd.h>

namespace mvm::monitor {

using virtio::BlockResult;

// Calls `transfer` until all segments have moved: the kernel may move less than asked for.
template <typename Transfer>
static BlockResult move_all(uint64_t offset, std::span<const iovec> segments,
                            Transfer transfer) noexcept {
  std::array<iovec, virtio::kMaxQueueSize> rest;
  if (segments.size() > rest.size()) return BlockResult::Failed;
  std::copy(segments.begin(), segments.end(), rest.begin());
  size_t first = 0;
  while (first < segments.size()) {
    const ssize_t moved = transfer(&rest.at(first), static_cast<int>(segments.size() - first),
                                   static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    // Zero is the end of the file: a disk file that was made shorter behind our back.
    if (moved <= 0) return BlockResult::Failed;
    offset += static_cast<uint64_t>(moved);
    auto left = static_cast<size_t>(moved);
    while (first < segments.size() && left >= rest.at(first).iov_len)
      left -= rest.at(first++).iov_len;
    if (left > 0) {
      iovec& partial = rest.at(first);
      partial.iov_base = static_cast<std::byte*>(partial.iov_base) + left;
      partial.iov_len -= left;
    }
  }
  return BlockResult::Ok;
}

BlockResult FileBackend::read(uint64_t offset, std::span<const iovec> into) noexcept {
  return move_all(offset, into, [this](const iovec* segments, int count, off_t at) {
    return ::preadv(file_.get(), segments, count, at);
  });
}

BlockResult FileBackend::write(uint64_t offset, std::span<const iovec> from) noexcept {
  return move_all(offset, from, [this](const iovec* segments, int count, off_t at) {
    return ::pwritev(file_.get(), segments, count, at);
  });
}

BlockResult FileBackend::flush() noexcept {
  while (::fdatasync(file_.get()) != 0)
    if (errno != EINTR) return BlockResult::Failed;
  return BlockResult::Ok;
}

}
