#pragma once
// The block device (virtio 1.2 §5.2): read, write, flush, discard, write zeroes, identify. Anything
// else is unsupported.
//
// The core judges requests and keeps book of them; an engine carries them out. process() takes
// requests from the queue, checks each as a whole and submits what it means to the engine, several
// at a time; complete() brings each answer back, in any order. Only requests that were completed
// before a flush came in are covered by it (§5.2.6.2), so nothing here waits for anything else.
//
// The disk is a plain array of bytes. Nothing in it is ever interpreted: what looks like an image
// header of some format is data that the guest wrote.

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <sys/uio.h>

#include "mvm/virtio/device.h"
#include "mvm/virtio/rate_limit.h"

namespace mvm::virtio {

inline constexpr uint32_t kSectorSize = 512;
inline constexpr size_t kBlockSerialLength = 20;

enum class BlockResult : uint8_t { Ok, Failed };
enum class Access : uint8_t { ReadOnly, ReadWrite };

enum class BlockVerb : uint8_t {
  Read,     // fills the segments
  Write,    // from the segments
  Flush,    // everything completed so far is on stable storage (fdatasync)
  Discard,  // the range is not needed any more, reads as zeros, and takes no space
  Zero,     // the range reads as zeros, and keeps its space
};

// A piece of work for an engine, within the capacity.
struct BlockOperation {
  BlockVerb verb = BlockVerb::Flush;
  uint16_t tag = 0;     // below Block::kMaxInFlight; in use until completed
  uint64_t offset = 0;  // bytes
  uint64_t length = 0;  // bytes, not 0; of Read and Write, those of the segments together
  // Guest memory, at most kMaxQueueSize pieces. The list stays until the operation is completed,
  // and is the engine's to change.
  std::span<iovec> segments;
};

// The storage behind a disk. An operation moves every byte or fails; EINTR, short transfers and the
// like are the engine's business. Answers go to Block::complete(), never from within submit().
class BlockEngine {
 public:
  virtual ~BlockEngine() = default;
  virtual void submit(const BlockOperation& operation) noexcept = 0;
  // Returns when nothing that was submitted touches guest memory any more. Answers that were not
  // given to complete() yet never will be.
  virtual void drain() noexcept = 0;
};

struct BlockLimits {
  uint64_t bytes_per_second = 0;       // read and written together; 0: no limit
  uint64_t operations_per_second = 0;  // requests of any kind; 0: no limit
};

struct BlockSettings {
  uint64_t capacity = 0;      // bytes; what exceeds a whole sector is not reachable
  uint32_t block_size = 512;  // logical block size, 512 to 4096, a power of two
  Access access = Access::ReadOnly;
  bool discard = false;     // offer discard and write zeroes; never on a read-only disk
  std::string_view serial;  // at most kBlockSerialLength bytes are used
  BlockLimits limits;
  std::function<RateLimit::Time()> now = std::chrono::steady_clock::now;  // for the limits
};

class Block : public Device {
 public:
  // A request holds at most this many data segments, and this many bytes: larger ones fail. Linux's
  // block layer asks for 1.25 MiB at most unless told otherwise.
  static constexpr uint32_t kMaxSegments = kMaxQueueSize - 2;
  static constexpr uint64_t kMaxRequestBytes = 1 << 30;
  // Discard and write zeroes: one range a request, and this much of the disk. A longer hole is cut
  // by the driver, so that no single request keeps the host's file system busy for long.
  static constexpr uint64_t kMaxRangeBytes = uint64_t{2} << 30;
  // Requests that an engine has at a time. The others wait in the queue.
  static constexpr uint16_t kMaxInFlight = 128;
  // One process() call ends after this many requests.
  static constexpr uint32_t kRequestsPerTurn = 64;

  // `engine` must outlive the device. Throws Error{Invalid} for an impossible block size.
  Block(const BlockSettings& settings, BlockEngine& engine);

  DeviceId id() const noexcept override { return DeviceId::Block; }
  Features features() const noexcept override;
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override;
  void activate(QueueSet queues, Features negotiated) noexcept override;
  // Drains the engine first: no byte of guest memory changes after the driver's reset.
  void reset() noexcept override;
  // Idle may also mean that the engine has all it may have, or that a limit holds requests back:
  // call it again after complete(), and at resume_at().
  Progress process(uint16_t queue) noexcept override;
  // The engine's answer to the operation with this tag. May submit another.
  void complete(uint16_t tag, BlockResult result) noexcept;
  // When a limit admits the request that waits, if one does.
  std::optional<RateLimit::Time> resume_at() const noexcept { return resume_at_; }
  size_t in_flight() const noexcept { return kMaxInFlight - free_.size(); }
  Effects take_effects() noexcept override;

 private:
  struct Config {  // struct virtio_blk_config
    uint64_t capacity;
    uint32_t size_max;
    uint32_t seg_max;
    uint16_t cylinders;
    uint8_t heads;
    uint8_t sectors;
    uint32_t blk_size;
    uint8_t physical_block_exp;
    uint8_t alignment_offset;
    uint16_t min_io_size;
    uint32_t opt_io_size;
    uint8_t writeback;
    uint8_t unused;
    uint16_t num_queues;
    uint32_t max_discard_sectors;
    uint32_t max_discard_seg;
    uint32_t discard_sector_alignment;
    uint32_t max_write_zeroes_sectors;
    uint32_t max_write_zeroes_seg;
    uint8_t write_zeroes_may_unmap;
    std::array<uint8_t, 7> unused_too;  // fields of features that are not offered
  };
  static_assert(sizeof(Config) == 64);
  struct Header {
    uint32_t type;
    uint32_t reserved;
    uint64_t sector;
  };
  // What a request comes to when it is looked at: an operation, or a status at once.
  struct Verdict {
    std::optional<BlockOperation> operation;
    uint8_t status = 0;
    uint64_t written = 0;  // bytes at the start of the writable part, if all goes well
  };
  // A request that the engine has.
  struct Request {
    std::byte* status = nullptr;  // in guest memory
    uint64_t room = 0;            // writable bytes before the status byte
    uint64_t written = 0;         // of these, once done
    uint16_t head = 0;
    bool active = false;
    bool flush_next = false;  // done only when a flush is, too
  };
  using Segments = std::array<iovec, kMaxQueueSize>;

  void start(Queue& queue, const Chain& chain) noexcept;
  Verdict judge(ChainReader& in, ChainWriter& out, uint64_t room,
                std::span<iovec> segments) noexcept;
  Verdict judge_read(uint64_t sector, const ChainWriter& out, uint64_t length,
                     std::span<iovec> segments) const noexcept;
  Verdict judge_write(uint64_t sector, const ChainReader& in,
                      std::span<iovec> segments) const noexcept;
  Verdict judge_range(uint32_t type, ChainReader& in) const noexcept;
  bool admissible(uint64_t sector, uint64_t length) const noexcept;
  bool held_back(Queue& queue) noexcept;
  void answer(Queue& queue, const Request& request, uint8_t status, uint64_t written) noexcept;

  BlockEngine& engine_;
  Config config_{};
  Access access_;
  bool discard_;
  std::array<std::byte, kBlockSerialLength> serial_{};
  bool limited_;
  RateLimit bytes_;
  RateLimit operations_;
  std::function<RateLimit::Time()> now_;
  std::optional<RateLimit::Time> resume_at_;
  Features negotiated_;
  QueueSet queues_;
  Effects effects_;
  bool answered_ = false;  // since the effects were last taken
  Chain chain_;
  std::vector<Request> requests_;         // by tag
  std::unique_ptr<Segments[]> segments_;  // by tag; a page each, touched when first needed
  std::vector<uint16_t> free_;            // tags; the last is next, so a quiet disk needs few
};

}
