#pragma once
// The block device (virtio 1.2 §5.2): read, write, flush, identify. Anything else is unsupported.
//
// The disk is a plain array of bytes. Nothing in it is ever interpreted: what looks like an image
// header of some format is data that the guest wrote.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <sys/uio.h>

#include "mvm/virtio/device.h"

namespace mvm::virtio {

inline constexpr uint32_t kSectorSize = 512;
inline constexpr size_t kBlockSerialLength = 20;

enum class BlockResult : uint8_t { Ok, Failed };
enum class Access : uint8_t { ReadOnly, ReadWrite };

// The storage behind a disk. A call moves every byte or fails; EINTR, short transfers and the like
// are its own business, and so is refusing to write where the file was opened read-only.
class BlockBackend {
 public:
  virtual ~BlockBackend() = default;
  // The segments are guest memory, at most kMaxQueueSize of them, and lie within the capacity.
  [[nodiscard]] virtual BlockResult read(uint64_t offset, std::span<const iovec> into) noexcept = 0;
  [[nodiscard]] virtual BlockResult write(uint64_t offset,
                                          std::span<const iovec> from) noexcept = 0;
  // Everything written so far is on stable storage when this returns Ok (fdatasync).
  [[nodiscard]] virtual BlockResult flush() noexcept = 0;
};

struct BlockSettings {
  uint64_t capacity = 0;      // bytes; what exceeds a whole sector is not reachable
  uint32_t block_size = 512;  // logical block size, 512 to 4096, a power of two
  Access access = Access::ReadOnly;
  std::string_view serial;  // at most kBlockSerialLength bytes are used
};

class Block : public Device {
 public:
  // A request holds at most this many data segments, and this many bytes: larger ones fail. Linux's
  // block layer asks for 1.25 MiB at most unless told otherwise.
  static constexpr uint32_t kMaxSegments = kMaxQueueSize - 2;
  static constexpr uint64_t kMaxRequestBytes = 1 << 30;
  // One process() call ends after this many requests, or once this many bytes have moved.
  static constexpr uint32_t kRequestsPerTurn = 64;
  static constexpr uint64_t kBytesPerTurn = 4 << 20;

  // `backend` must outlive the device. Throws Error{Invalid} for an impossible block size.
  Block(const BlockSettings& settings, BlockBackend& backend);

  DeviceId id() const noexcept override { return DeviceId::Block; }
  Features features() const noexcept override;
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override;
  void activate(QueueSet queues, Features negotiated) noexcept override;
  void reset() noexcept override;
  Progress process(uint16_t queue) noexcept override;
  Effects take_effects() noexcept override { return effects_.take(); }

 private:
  struct Config {  // struct virtio_blk_config, as far as the offered features reach
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
  };
  static_assert(sizeof(Config) == 32);
  struct Header {
    uint32_t type;
    uint32_t reserved;
    uint64_t sector;
  };
  struct Outcome {
    uint8_t status;
    uint64_t written;  // bytes at the start of the writable part
  };

  uint32_t serve(const Chain& chain) noexcept;
  Outcome run(ChainReader& in, ChainWriter& out, uint64_t room) noexcept;
  Outcome read(uint64_t sector, const ChainWriter& out, uint64_t length) noexcept;
  Outcome write(uint64_t sector, const ChainReader& in) noexcept;
  Outcome flush() noexcept;
  bool admissible(uint64_t sector, uint64_t length) const noexcept;

  BlockBackend& backend_;
  Config config_{};
  Access access_;
  std::array<std::byte, kBlockSerialLength> serial_{};
  bool write_through_ = false;
  QueueSet queues_;
  Effects effects_;
  uint64_t moved_ = 0;  // bytes in the present turn
  Chain chain_;
  std::array<iovec, kMaxQueueSize> segments_;
};

}
