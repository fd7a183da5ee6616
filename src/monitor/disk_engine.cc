#include "disk_engine.h"

#include <algorithm>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include "uring_engine.h"
#include "worker_engine.h"

namespace mvm::monitor {

std::unique_ptr<DiskEngine> make_disk_engine(EngineKind kind, sys::Fd file) {
  if (kind == EngineKind::IoUring) return std::make_unique<UringEngine>(std::move(file));
  return std::make_unique<WorkerEngine>(std::move(file));
}

bool can_make_holes(int file) noexcept {
  // A hole beyond the end, where there is nothing to lose.
  struct stat now{};
  return ::fstat(file, &now) == 0 &&
         ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, now.st_size, 4096) == 0;
}

void drop_front(std::span<iovec>& segments, size_t moved) noexcept {
  while (moved > 0 && !segments.empty()) {
    iovec& first = segments.front();
    const size_t step = std::min(moved, first.iov_len);
    first.iov_base = static_cast<std::byte*>(first.iov_base) + step;
    first.iov_len -= step;
    moved -= step;
    if (first.iov_len == 0) segments = segments.subspan(1);
  }
}

}
