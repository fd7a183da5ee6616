#include "mvm/virtio/block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

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
constexpr unsigned kFeatureDiscard = 13;
constexpr unsigned kFeatureWriteZeroes = 14;

// §5.2.6.
constexpr uint32_t kTypeIn = 0;
constexpr uint32_t kTypeOut = 1;
constexpr uint32_t kTypeFlush = 4;
constexpr uint32_t kTypeGetId = 8;
constexpr uint32_t kTypeDiscard = 11;
constexpr uint32_t kTypeWriteZeroes = 13;
constexpr uint8_t kStatusOk = 0;
constexpr uint8_t kStatusIoError = 1;
constexpr uint8_t kStatusUnsupported = 2;

// §5.2.6: struct virtio_blk_discard_write_zeroes.
struct Range {
  uint64_t sector;
  uint32_t sectors;
  uint32_t flags;
};
constexpr uint32_t kRangeUnmap = 1;

// Holes in the host's file are made of its blocks.
constexpr uint32_t kDiscardAlignment = 4096 / kSectorSize;

constexpr uint16_t kQueueSizes[] = {kMaxQueueSize};

}

Block::Block(const BlockSettings& settings, BlockEngine& engine)
    : engine_(engine),
      access_(settings.access),
      discard_(settings.discard && settings.access == Access::ReadWrite),
      limited_(settings.limits.bytes_per_second != 0 || settings.limits.operations_per_second != 0),
      bytes_(settings.limits.bytes_per_second),
      operations_(settings.limits.operations_per_second),
      now_(settings.now),
      requests_(kMaxInFlight),
      segments_(std::make_unique_for_overwrite<Segments[]>(kMaxInFlight)) {
  if (!std::has_single_bit(settings.block_size) || settings.block_size < kSectorSize ||
      settings.block_size > 4096)
    throw Error(Kind::Invalid, "a disk's block size must be 512, 1024, 2048 or 4096");
  config_.capacity = settings.capacity / kSectorSize;
  config_.seg_max = kMaxSegments;
  config_.blk_size = settings.block_size;
  if (discard_) {
    config_.max_discard_sectors = config_.max_write_zeroes_sectors = kMaxRangeBytes / kSectorSize;
    config_.max_discard_seg = config_.max_write_zeroes_seg = 1;
    config_.discard_sector_alignment = kDiscardAlignment;
    config_.write_zeroes_may_unmap = 1;
  }
  const auto serial = as_bytes(settings.serial);
  std::ranges::copy(serial.first(std::min(serial.size(), serial_.size())), serial_.begin());
  for (uint16_t tag = kMaxInFlight; tag-- > 0;) free_.push_back(tag);
}

Features Block::features() const noexcept {
  // What would only repeat a default is not offered: reading it would be an exit of the guest for
  // nothing. That goes for the topology, too: a guest's file system uses 4 KiB blocks anyway.
  Features offered = Features().with(kFeatureSegMax).with(kFeatureFlush);
  if (config_.blk_size != kSectorSize) offered = offered.with(kFeatureBlockSize);
  if (access_ == Access::ReadOnly) offered = offered.with(kFeatureReadOnly);
  if (discard_) offered = offered.with(kFeatureDiscard).with(kFeatureWriteZeroes);
  return offered;
}

std::span<const uint16_t> Block::queue_sizes() const noexcept { return kQueueSizes; }
ByteView Block::config() const noexcept { return std::as_bytes(std::span(&config_, 1)); }

void Block::activate(QueueSet queues, Features negotiated) noexcept {
  queues_ = queues;
  negotiated_ = negotiated;
}

void Block::reset() noexcept {
  engine_.drain();
  for (uint16_t tag = 0; tag < kMaxInFlight; ++tag) {
    if (!requests_[tag].active) continue;
    requests_[tag].active = false;
    free_.push_back(tag);
  }
  queues_ = {};
  effects_ = {};
  answered_ = false;
  resume_at_.reset();
}

Progress Block::process(uint16_t index) noexcept {
  Queue* queue = queue_at(queues_, index);
  if (queue == nullptr) return Progress::Idle;
  queue->disable_notifications();
  resume_at_.reset();
  for (uint32_t budget = kRequestsPerTurn; budget > 0; --budget) {
    if (free_.empty() || held_back(*queue)) return Progress::Idle;
    const auto popped = queue->pop(chain_);
    if (!popped) {
      effects_.fault = popped.error();
      return Progress::Idle;
    }
    if (*popped) {
      start(*queue, chain_);
    } else if (!queue->enable_notifications()) {
      return Progress::Idle;
    }
  }
  return Progress::More;
}

// By a limit. When no request is there to be held back, the next one's kick is asked for instead.
bool Block::held_back(Queue& queue) noexcept {
  if (!limited_) return false;
  const auto admitted_at = std::max(bytes_.admitted_at(), operations_.admitted_at());
  if (admitted_at <= now_()) return false;
  if (queue.enable_notifications()) {
    queue.disable_notifications();
    resume_at_ = admitted_at;
  }
  return true;
}

// The status byte is the last writable byte, wherever the descriptors are cut. Without one there is
// no way to answer, and nothing is done.
void Block::start(Queue& queue, const Chain& chain) noexcept {
  if (limited_) operations_.take(1, now_());
  if (chain.writable_length() == 0) {
    answered_ = true;
    return queue.push(chain.head(), 0);
  }
  const uint16_t tag = free_.back();
  Request& request = requests_[tag];
  request.head = chain.head();
  request.room = chain.writable_length() - 1;
  ChainWriter status = chain.writer();
  status.skip(request.room);
  iovec last{};
  status.gather(1, std::span(&last, 1));
  // One byte of a segment that was checked when the chain was popped.
  request.status = static_cast<std::byte*>(last.iov_base);

  ChainReader in = chain.reader();
  ChainWriter out = chain.writer();
  Verdict verdict = judge(in, out, request.room, segments_[tag]);
  if (!verdict.operation) return answer(queue, request, verdict.status, verdict.written);

  free_.pop_back();
  request.active = true;
  request.written = verdict.written;
  // §5.2.6.2: without FLUSH a driver has no other way to make a write durable.
  request.flush_next = verdict.operation->verb != BlockVerb::Read &&
                       verdict.operation->verb != BlockVerb::Flush &&
                       !negotiated_.has(kFeatureFlush);
  verdict.operation->tag = tag;
  if (limited_ && !verdict.operation->segments.empty())
    bytes_.take(verdict.operation->length, now_());
  engine_.submit(*verdict.operation);
}

void Block::complete(uint16_t tag, BlockResult result) noexcept {
  Request& request = requests_.at(tag);
  MVM_ASSERT(request.active);
  if (result == BlockResult::Ok && request.flush_next) {
    request.flush_next = false;
    return engine_.submit({.verb = BlockVerb::Flush, .tag = tag});
  }
  request.active = false;
  free_.push_back(tag);
  // The queue that it came from: queues do not go while a request is in flight (reset).
  const bool good = result == BlockResult::Ok;
  answer(*queues_[0], request, good ? kStatusOk : kStatusIoError, good ? request.written : 0);
}

void Block::answer(Queue& queue, const Request& request, uint8_t status,
                   uint64_t written) noexcept {
  std::memcpy(request.status, &status, sizeof status);
  // §2.7.8.2: the length covers bytes from the start of the writable part, without gaps.
  if (written == request.room) ++written;
  queue.push(request.head, static_cast<uint32_t>(std::min<uint64_t>(written, UINT32_MAX)));
  answered_ = true;
}

Effects Block::take_effects() noexcept {
  // Once for all answers since the last time: one interrupt, if the driver wants any.
  if (std::exchange(answered_, false) && queues_[0]->should_notify()) effects_.used_buffers = true;
  return effects_.take();
}

// ---- judging --------------------------------------------------------------------------------

Block::Verdict Block::judge(ChainReader& in, ChainWriter& out, uint64_t room,
                            std::span<iovec> segments) noexcept {
  const auto header = in.read_value<Header>();
  if (!header) return {.status = kStatusIoError};
  switch (header->type) {
    case kTypeIn:
      return judge_read(header->sector, out, room, segments);
    case kTypeOut:
      return judge_write(header->sector, in, segments);
    case kTypeFlush:
      return {.operation = BlockOperation{.verb = BlockVerb::Flush}};
    case kTypeGetId:
      if (room < serial_.size()) return {.status = kStatusIoError};
      return {.status = kStatusOk, .written = out.write(serial_)};
    case kTypeDiscard:
    case kTypeWriteZeroes:
      return judge_range(header->type, in);
    default:
      return {.status = kStatusUnsupported};
  }
}

bool Block::admissible(uint64_t sector, uint64_t length) const noexcept {
  return length % kSectorSize == 0 && length <= kMaxRequestBytes &&
         in_bounds(sector, length / kSectorSize, config_.capacity);
}

Block::Verdict Block::judge_read(uint64_t sector, const ChainWriter& out, uint64_t length,
                                 std::span<iovec> segments) const noexcept {
  if (!admissible(sector, length)) return {.status = kStatusIoError};
  if (length == 0) return {.status = kStatusOk};
  return {
      .operation = BlockOperation{.verb = BlockVerb::Read,
                                  .offset = sector * kSectorSize,
                                  .length = length,
                                  .segments = segments.first(out.gather(length, segments).size())},
      .written = length};
}

Block::Verdict Block::judge_write(uint64_t sector, const ChainReader& in,
                                  std::span<iovec> segments) const noexcept {
  const uint64_t length = in.remaining();
  // Whatever the driver negotiated: read-only is the host's decision.
  if (access_ == Access::ReadOnly || !admissible(sector, length)) return {.status = kStatusIoError};
  if (length == 0) return {.status = kStatusOk};
  return {.operation =
              BlockOperation{.verb = BlockVerb::Write,
                             .offset = sector * kSectorSize,
                             .length = length,
                             .segments = segments.first(in.gather(length, segments).size())}};
}

// §5.2.6.2. What was not negotiated is not there.
Block::Verdict Block::judge_range(uint32_t type, ChainReader& in) const noexcept {
  const bool discard = type == kTypeDiscard;
  if (!negotiated_.has(discard ? kFeatureDiscard : kFeatureWriteZeroes) || !discard_)
    return {.status = kStatusUnsupported};
  // One range: that is what max_discard_seg and max_write_zeroes_seg say.
  if (in.remaining() != sizeof(Range)) return {.status = kStatusIoError};
  const Range range = *in.read_value<Range>();
  if ((range.flags & ~(discard ? 0 : kRangeUnmap)) != 0) return {.status = kStatusUnsupported};
  if (range.sectors > kMaxRangeBytes / kSectorSize ||
      !in_bounds(range.sector, range.sectors, config_.capacity))
    return {.status = kStatusIoError};
  if (range.sectors == 0) return {.status = kStatusOk};
  const bool unmap = discard || (range.flags & kRangeUnmap) != 0;
  return {.operation = BlockOperation{.verb = unmap ? BlockVerb::Discard : BlockVerb::Zero,
                                      .offset = range.sector * kSectorSize,
                                      .length = uint64_t{range.sectors} * kSectorSize}};
}

}
