#include "uring_engine.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/falloc.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"

namespace mvm::monitor {

using virtio::BlockOperation;
using virtio::BlockResult;
using virtio::BlockVerb;

static constexpr int kRegisteredFile = 0;
// An operation that is turned away this often in a row has failed.
static constexpr int kMaxAttempts = 8;

// liburing returns an error, negative, where system calls set errno.
static void check_ring(int result, const char* doing) {
  if (result < 0) throw SystemError(-result, doing);
}

static void restrict_ring(io_uring& ring) {
  constexpr std::array kPermitted{IORING_OP_READ,   IORING_OP_READV, IORING_OP_WRITE,
                                  IORING_OP_WRITEV, IORING_OP_FSYNC, IORING_OP_FALLOCATE};
  std::array<io_uring_restriction, kPermitted.size() + 2> rules{};
  for (size_t i = 0; i < kPermitted.size(); ++i) {
    rules[i].opcode = IORING_RESTRICTION_SQE_OP;
    rules[i].sqe_op = static_cast<uint8_t>(kPermitted[i]);
  }
  rules[kPermitted.size()].opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED;
  rules[kPermitted.size()].sqe_flags = IOSQE_FIXED_FILE;
  rules[kPermitted.size() + 1].opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
  rules[kPermitted.size() + 1].sqe_flags = IOSQE_ASYNC;
  check_ring(io_uring_register_restrictions(&ring, rules.data(), rules.size()),
             "restricting an io_uring");
}

UringEngine::UringEngine(sys::Fd file) : file_(std::move(file)) {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_R_DISABLED;
  check_ring(io_uring_queue_init_params(virtio::Block::kMaxInFlight, &ring_, &parameters),
             "making an io_uring");
  ScopeExit undo([this] { io_uring_queue_exit(&ring_); });
  const int fd = file_.get();
  check_ring(io_uring_register_files(&ring_, &fd, 1), "registering the disk with an io_uring");
  restrict_ring(ring_);
  check_ring(io_uring_enable_rings(&ring_), "enabling an io_uring");
  undo.release();
}

UringEngine::~UringEngine() {
  UringEngine::drain();
  io_uring_queue_exit(&ring_);
}

void UringEngine::submit(const BlockOperation& operation) noexcept {
  Pending& pending = pending_.at(operation.tag);
  pending = {operation};
  ++in_flight_;
  prepare(pending);
}

void UringEngine::prepare(Pending& pending) noexcept {
  const BlockOperation& operation = pending.operation;
  // There is room: an operation has one entry at a time, and the ring one for each tag.
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  MVM_ASSERT(entry != nullptr);
  const auto segments = operation.segments;
  const auto count = static_cast<unsigned>(segments.size());
  switch (operation.verb) {
    // For a single segment the kernel need not copy a list.
    case BlockVerb::Read:
      if (count == 1)
        io_uring_prep_read(entry, kRegisteredFile, segments[0].iov_base,
                           static_cast<unsigned>(segments[0].iov_len), operation.offset);
      else
        io_uring_prep_readv(entry, kRegisteredFile, segments.data(), count, operation.offset);
      break;
    case BlockVerb::Write:
      if (count == 1)
        io_uring_prep_write(entry, kRegisteredFile, segments[0].iov_base,
                            static_cast<unsigned>(segments[0].iov_len), operation.offset);
      else
        io_uring_prep_writev(entry, kRegisteredFile, segments.data(), count, operation.offset);
      break;
    case BlockVerb::Flush:
      io_uring_prep_fsync(entry, kRegisteredFile, IORING_FSYNC_DATASYNC);
      break;
    case BlockVerb::Discard:
    case BlockVerb::Zero:
      io_uring_prep_fallocate(
          entry, kRegisteredFile,
          FALLOC_FL_KEEP_SIZE |
              (operation.verb == BlockVerb::Zero ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE),
          static_cast<off_t>(operation.offset), static_cast<off_t>(operation.length));
      break;
  }
  // What was turned away once is left to a thread of the kernel's, which waits.
  io_uring_sqe_set_flags(entry,
                         IOSQE_FIXED_FILE | (pending.attempts > 0 ? unsigned{IOSQE_ASYNC} : 0U));
  io_uring_sqe_set_data64(entry, operation.tag);
}

bool UringEngine::commit() noexcept {
  while (io_uring_sq_ready(&ring_) > 0) {
    const int result = io_uring_submit(&ring_);
    if (result == -EINTR) continue;
    if (result <= 0) return false;
  }
  return true;
}

size_t UringEngine::take_answers(std::span<DiskAnswer> into) noexcept {
  size_t count = 0;
  io_uring_cqe* entry = nullptr;
  while (count < into.size() && io_uring_peek_cqe(&ring_, &entry) == 0) {
    Pending& pending = pending_.at(entry->user_data);
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    if (const auto answer = judge(pending, result)) {
      --in_flight_;
      into[count++] = {pending.operation.tag, *answer};
    } else {
      prepare(pending);
    }
  }
  return count;
}

std::optional<BlockResult> UringEngine::judge(Pending& pending, int result) noexcept {
  BlockOperation& operation = pending.operation;
  if (result == -EINTR || result == -EAGAIN) {
    if (++pending.attempts < kMaxAttempts) return std::nullopt;
    return BlockResult::Failed;
  }
  // Not every file system can keep the space; a hole reads as zeros as well.
  if (result == -EOPNOTSUPP && operation.verb == BlockVerb::Zero) {
    operation.verb = BlockVerb::Discard;
    return std::nullopt;
  }
  if (result < 0) return BlockResult::Failed;
  if (operation.verb != BlockVerb::Read && operation.verb != BlockVerb::Write)
    return BlockResult::Ok;
  // Zero is the end of the file: a disk file that was made shorter behind our back.
  if (result == 0) return BlockResult::Failed;
  pending.attempts = 0;
  operation.offset += static_cast<uint64_t>(result);
  drop_front(operation.segments, static_cast<size_t>(result));
  if (operation.segments.empty()) return BlockResult::Ok;
  return std::nullopt;
}

void UringEngine::drain() noexcept {
  while (in_flight_ > 0) {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    // A shortage is no reason to give up: the kernel still writes to the guest's memory.
    MVM_ASSERT(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY ||
               result == -ENOMEM);
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      io_uring_cqe_seen(&ring_, entry);
      --in_flight_;
    }
  }
}

}
