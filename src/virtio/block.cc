#include "mvm/virtio/block.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "mvm/base/checked.h"
#include "mvm/base/error.h"

#include "serve.h"

namespace mvm::virtio {
namespace {

// §5.2.3.
constexpr unsigned kFeatureSegMax = 2;
constexpr unsigned kFeatureReadOnly = 5;
constexpr unsigned kFeatureBlockSize = 6;
constexpr unsigned kFeatureFlush = 9;

// §5.2.6.
constexpr uint32_t kTypeIn = 0;
constexpr uint32_t kTypeOut = 1;
constexpr uint32_t kTypeFlush = 4;
constexpr uint32_t kTypeGetId = 8;
constexpr uint8_t kStatusOk = 0;
constexpr uint8_t kStatusIoError = 1;
constexpr uint8_t kStatusUnsupported = 2;

constexpr uint16_t kQueueSizes[] = {kMaxQueueSize};

}

Block::Block(const BlockSettings& settings, BlockBackend& backend)
    : backend_(backend), access_(settings.access) {
  if (!std::has_single_bit(settings.block_size) || settings.block_size < kSectorSize ||
      settings.block_size > 4096)
    throw Error(Kind::Invalid, "a disk's block size must be 512, 1024, 2048 or 4096");
  config_.capacity = settings.capacity / kSectorSize;
  config_.seg_max = kMaxSegments;
  config_.blk_size = settings.block_size;
  const auto serial = as_bytes(settings.serial);
  std::ranges::copy(serial.first(std::min(serial.size(), serial_.size())), serial_.begin());
}

Features Block::features() const noexcept {
  // What would only repeat a default is not offered: reading it would be an exit of the guest for
  // nothing.
  Features offered = Features().with(kFeatureSegMax).with(kFeatureFlush);
  if (config_.blk_size != kSectorSize) offered = offered.with(kFeatureBlockSize);
  if (access_ == Access::ReadOnly) offered = offered.with(kFeatureReadOnly);
  return offered;
}

std::span<const uint16_t> Block::queue_sizes() const noexcept { return kQueueSizes; }
ByteView Block::config() const noexcept { return std::as_bytes(std::span(&config_, 1)); }

void Block::activate(QueueSet queues, Features negotiated) noexcept {
  queues_ = queues;
  // §5.2.6.2: without FLUSH a driver has no other way to make writes durable.
  write_through_ = !negotiated.has(kFeatureFlush);
}

void Block::reset() noexcept {
  queues_ = {};
  effects_ = {};
}

Progress Block::process(uint16_t index) noexcept {
  Queue* queue = queue_at(queues_, index);
  if (queue == nullptr) return Progress::Idle;
  moved_ = 0;
  return serve_queue(
      *queue, chain_, kRequestsPerTurn, effects_,
      [this](const Chain& chain) { return serve(chain); },
      [this] { return moved_ >= kBytesPerTurn; });
}

// The status byte is the last writable byte, wherever the descriptors are cut. Without one there is
// no way to answer, and nothing is done.
uint32_t Block::serve(const Chain& chain) noexcept {
  if (chain.writable_length() == 0) return 0;
  const uint64_t room = chain.writable_length() - 1;
  ChainReader in = chain.reader();
  ChainWriter out = chain.writer();
  const Outcome outcome = run(in, out, room);
  ChainWriter status = chain.writer();
  status.skip(room);
  status.write_value(outcome.status);
  // §2.7.8.2: the length covers bytes from the start of the writable part, without gaps.
  const uint64_t written = outcome.written == room ? room + 1 : outcome.written;
  return static_cast<uint32_t>(std::min<uint64_t>(written, UINT32_MAX));
}

Block::Outcome Block::run(ChainReader& in, ChainWriter& out, uint64_t room) noexcept {
  const auto header = in.read_value<Header>();
  if (!header) return {kStatusIoError, 0};
  switch (header->type) {
    case kTypeIn:
      return read(header->sector, out, room);
    case kTypeOut:
      return write(header->sector, in);
    case kTypeFlush:
      return flush();
    case kTypeGetId:
      if (room < serial_.size()) return {kStatusIoError, 0};
      return {kStatusOk, out.write(serial_)};
    default:
      return {kStatusUnsupported, 0};
  }
}

bool Block::admissible(uint64_t sector, uint64_t length) const noexcept {
  return length % kSectorSize == 0 && length <= kMaxRequestBytes &&
         in_bounds(sector, length / kSectorSize, config_.capacity);
}

Block::Outcome Block::read(uint64_t sector, const ChainWriter& out, uint64_t length) noexcept {
  if (!admissible(sector, length)) return {kStatusIoError, 0};
  moved_ += length;
  if (length != 0 &&
      backend_.read(sector * kSectorSize, out.gather(length, segments_)) != BlockResult::Ok)
    return {kStatusIoError, 0};
  return {kStatusOk, length};
}

Block::Outcome Block::write(uint64_t sector, const ChainReader& in) noexcept {
  const uint64_t length = in.remaining();
  // Whatever the driver negotiated: read-only is the host's decision.
  if (access_ == Access::ReadOnly || !admissible(sector, length)) return {kStatusIoError, 0};
  moved_ += length;
  if (length != 0 &&
      backend_.write(sector * kSectorSize, in.gather(length, segments_)) != BlockResult::Ok)
    return {kStatusIoError, 0};
  return write_through_ ? flush() : Outcome{kStatusOk, 0};
}

Block::Outcome Block::flush() noexcept {
  return {backend_.flush() == BlockResult::Ok ? kStatusOk : kStatusIoError, 0};
}

}
