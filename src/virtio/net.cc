// Sending: the offload header and the first bytes of each frame are copied, judged as copied, and
// sent as copied, so the guest cannot change what was judged. The rest of the frame goes from its
// memory to the port untouched.
//
// Receiving: buffers are taken ahead, enough for the longest frame that can come, and a frame is
// read straight into them. What it does not use waits for the next one.
#include "mvm/virtio/net.h"

#include <algorithm>
#include <cstring>

#include "serve.h"

namespace mvm::virtio {
namespace {

// §5.1.3
constexpr unsigned kFeatureChecksum = 0;
constexpr unsigned kFeatureGuestChecksum = 1;
constexpr unsigned kFeatureMtu = 3;
constexpr unsigned kFeatureMac = 5;
constexpr unsigned kFeatureGuestTso4 = 7;
constexpr unsigned kFeatureGuestTso6 = 8;
constexpr unsigned kFeatureGuestEcn = 9;
constexpr unsigned kFeatureHostTso4 = 11;
constexpr unsigned kFeatureHostTso6 = 12;
constexpr unsigned kFeatureHostEcn = 13;
constexpr unsigned kFeatureMergeableBuffers = 15;
constexpr unsigned kFeatureStatus = 16;

constexpr uint16_t kLinkUp = 1;
constexpr uint16_t kQueueSizes[] = {kMaxQueueSize, kMaxQueueSize};
constexpr size_t kEthernet = 14;
// As many as one readv(2) takes (IOV_MAX).
constexpr size_t kMaxSegments = 1024;

}

Net::Net(FramePort& port, const FrameOwner& owner, uint16_t mtu, uint64_t beginnings,
         Clock clock) noexcept
    : port_(port), owner_(owner), clock_(clock), beginnings_(beginnings) {
  config_ = {.mac = owner.mac, .status = 0, .max_queue_pairs = 1, .mtu = mtu};
  waiting_.reserve(kMaxQueueSize);
  segments_.resize(kMaxSegments);
}

Features Net::features() const noexcept {
  return Features()
      .with(kFeatureChecksum)
      .with(kFeatureGuestChecksum)
      .with(kFeatureMtu)
      .with(kFeatureMac)
      .with(kFeatureGuestTso4)
      .with(kFeatureGuestTso6)
      .with(kFeatureGuestEcn)
      .with(kFeatureHostTso4)
      .with(kFeatureHostTso6)
      .with(kFeatureHostEcn)
      .with(kFeatureMergeableBuffers)
      .with(kFeatureStatus);
}

std::span<const uint16_t> Net::queue_sizes() const noexcept { return kQueueSizes; }
ByteView Net::config() const noexcept { return std::as_bytes(std::span(&config_, 1)); }

void Net::activate(QueueSet queues, Features negotiated) noexcept {
  queues_ = queues;
  negotiated_ = negotiated;
  // §5.1.3.1: an offload without what it depends on was not negotiated.
  ReceiveOffloads offloads;
  offloads.checksum = negotiated.has(kFeatureGuestChecksum);
  offloads.tso4 = offloads.checksum && negotiated.has(kFeatureGuestTso4);
  offloads.tso6 = offloads.checksum && negotiated.has(kFeatureGuestTso6);
  offloads.ecn = (offloads.tso4 || offloads.tso6) && negotiated.has(kFeatureGuestEcn);
  frame_room_ = sizeof(NetHeader) +
                (offloads.tso4 || offloads.tso6 ? kMaxFrame : kEthernet + uint64_t{config_.mtu});
  port_.set_offloads(offloads);
}

void Net::reset() noexcept {
  queues_ = {};
  negotiated_ = Features();
  effects_ = {};
  config_.status = 0;
  waiting_.clear();
  segment_count_ = 0;
  room_ = 0;
}

Progress Net::process(uint16_t index) noexcept {
  if (index != kTransmitQueue) return Progress::Idle;
  Queue* queue = queue_at(queues_, index);
  if (queue == nullptr) return Progress::Idle;
  return serve_queue(
      *queue, chain_, kFramesPerTurn, effects_,
      [this](const Chain& chain) {
        transmit(chain);
        return 0U;
      },
      [] { return false; });
}

std::optional<FrameFault> Net::judge(NetHeader& header, ByteView start, uint64_t length) noexcept {
  if (const auto fault = judge_frame(owner_, negotiated_, header, start, length)) return fault;
  if (begins(start) && beginnings_.take(1, clock_()) == 0) return FrameFault::Rate;
  return std::nullopt;
}

void Net::transmit(const Chain& chain) noexcept {
  ChainReader reader = chain.reader();
  auto header = reader.read_value<NetHeader>();
  const uint64_t length = reader.remaining();
  const size_t copied = header ? reader.read(start_) : 0;
  const auto fault =
      header ? judge(*header, std::span(start_).first(copied), length) : FrameFault::Size;
  if (fault) {
    ++refused_.at(static_cast<size_t>(*fault));
    return;
  }
  outgoing_[0] = {&*header, sizeof(NetHeader)};
  outgoing_[1] = {start_.data(), copied};
  const auto rest = reader.gather(reader.remaining(), std::span(outgoing_).subspan(2));
  port_.send(std::span(outgoing_).first(2 + rest.size()));
}

// ---- receiving ----------------------------------------------------------------------------------

bool Net::take_buffer(Queue& queue) noexcept {
  const auto popped = queue.pop(chain_);
  if (!popped) {
    effects_.fault = popped.error();
    return false;
  }
  if (!*popped) return false;
  // Now that somebody receives. Linux hears at once of a link that comes up under a card that is
  // up, and a second later of one that was up before: until then its IPv6 addresses are of no use.
  if (config_.status != kLinkUp) {
    config_.status = kLinkUp;
    effects_.config_changed = negotiated_.has(kFeatureStatus);
  }
  // §5.1.6.3.1: room for the header at least; without mergeable buffers, for all of a frame.
  const bool mergeable = negotiated_.has(kFeatureMergeableBuffers);
  if (chain_.writable_length() < (mergeable ? sizeof(NetHeader) : frame_room_)) {
    effects_.fault = QueueFault::BufferTooSmall;
    return false;
  }
  // More than a frame is of no use.
  const uint64_t useful = std::min(chain_.writable_length(), frame_room_);
  const auto taken = chain_.writer().gather(useful, std::span(segments_).subspan(segment_count_));
  segment_count_ += taken.size();
  waiting_.push_back(
      {chain_.head(), static_cast<uint16_t>(taken.size()), static_cast<uint32_t>(useful)});
  room_ += useful;
  return true;
}

bool Net::gather_room(Queue& queue) noexcept {
  bool looked_again = false;
  while (room_ < frame_room_) {
    // Room for one more chain's. Tiny ones by the hundred do not hold a frame.
    if (segment_count_ > kMaxSegments - kMaxQueueSize) {
      effects_.fault = QueueFault::BufferTooSmall;
      return false;
    }
    if (take_buffer(queue)) continue;
    if (effects_.fault || !queue.enable_notifications() || std::exchange(looked_again, true))
      return false;
  }
  queue.disable_notifications();
  return true;
}

Net::Received Net::receive() noexcept {
  Queue* queue = queue_at(queues_, kReceiveQueue);
  if (queue == nullptr) return Received::Starved;
  Received result = Received::More;
  for (uint32_t budget = kFramesPerTurn; budget > 0; --budget) {
    if (!gather_room(*queue)) {
      result = Received::Starved;
      break;
    }
    const auto length = port_.receive(segments());
    if (!length) {
      result = Received::Drained;
      break;
    }
    if (*length >= sizeof(NetHeader) && *length <= room_) deliver(*queue, *length);
  }
  if (queue->should_notify()) effects_.used_buffers = true;
  return result;
}

// Writes what the port could not know, how many buffers the frame took, into the header in guest
// memory (§5.1.6.4), and gives the buffers back.
void Net::deliver(Queue& queue, size_t length) noexcept {
  size_t used = 0;
  size_t left = length;
  while (left > 0) left -= std::min<size_t>(left, waiting_[used++].bytes);
  ChainWriter header{segments()};
  header.skip(offsetof(NetHeader, buffers));
  header.write_value(static_cast<uint16_t>(used));
  left = length;
  size_t segments = 0;
  for (size_t i = 0; i < used; ++i) {
    const auto written = static_cast<uint32_t>(std::min<size_t>(left, waiting_[i].bytes));
    queue.push(waiting_[i].head, written);
    left -= written;
    segments += waiting_[i].segments;
    room_ -= waiting_[i].bytes;
  }
  release(used, segments);
}

void Net::release(size_t buffers, size_t segments) noexcept {
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(buffers));
  std::ranges::copy(this->segments().subspan(segments), segments_.begin());
  segment_count_ -= segments;
}

}
