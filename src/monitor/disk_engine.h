#pragma once
// What carries a disk's operations out on a regular file, straight between the file and guest
// memory: io_uring where the host lets us, worker threads where it does not
// (docs/decisions/0007-disk-engines.md). Both pass the same tests.
//
// An engine belongs to its disk's thread, which makes every call.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "mvm/sys/fd.h"
#include "mvm/virtio/block.h"

namespace mvm::monitor {

struct DiskAnswer {
  uint16_t tag = 0;
  virtio::BlockResult result = virtio::BlockResult::Failed;
};

// What a thread that touches guest memory does first, and whom it tells when that fails.
struct ThreadStart {
  std::function<void()> confine;  // may throw Error
  std::function<void(const std::string&)> on_failure;
};

class DiskEngine : public virtio::BlockEngine {
 public:
  // Starts threads of its own, if it needs any. Until then nothing that is submitted gets done.
  virtual void start_threads(const ThreadStart& start) = 0;
  // Hands what was submitted to the host. False when some of it is left because the host has no
  // memory for it at the moment: call again a little later.
  [[nodiscard]] virtual bool commit() noexcept = 0;
  // Moves answers that have come to `into`; returns how many.
  virtual size_t take_answers(std::span<DiskAnswer> into) noexcept = 0;
  // Readable when there are answers to take.
  virtual int event_fd() const noexcept = 0;
};

enum class EngineKind : uint8_t { IoUring, Workers };

// Throws SystemError when the host does not let us have this kind.
std::unique_ptr<DiskEngine> make_disk_engine(EngineKind kind, sys::Fd file);

// Whether the file's file system can make holes. Changes nothing.
bool can_make_holes(int file) noexcept;

// Drops the first `moved` bytes of a list of segments.
void drop_front(std::span<iovec>& segments, size_t moved) noexcept;

}
