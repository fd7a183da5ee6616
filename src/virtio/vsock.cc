// Streams: who holds them, what they still have to say, and what the owner asks of them. Packets
// are in vsock_packets.cc.

#include "mvm/virtio/vsock.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "mvm/base/error.h"

#include "serve.h"

namespace mvm::virtio {
namespace {

constexpr uint16_t kQueueSizes[] = {kMaxQueueSize, kMaxQueueSize, kMaxQueueSize};
constexpr uint32_t kBothDirections = kVsockNoReceive | kVsockNoSend;

constexpr uint8_t event_bit(VsockEvent::Kind kind) noexcept {
  return static_cast<uint8_t>(1U << static_cast<unsigned>(kind));
}

}

void Vsock::SlotQueue::push(uint16_t slot) noexcept {
  MVM_ASSERT(size_ < slots_.size());
  slots_[(head_ + size_++) % slots_.size()] = slot;
}

void Vsock::SlotQueue::pop() noexcept {
  MVM_ASSERT(size_ > 0);
  head_ = (head_ + 1) % slots_.size();
  --size_;
}

Vsock::Vsock(const VsockSettings& settings, VsockHost& host)
    : host_(host),
      config_cid_(settings.guest_cid),
      stream_buffer_(settings.stream_buffer),
      next_port_(settings.next_port),
      control_queue_(settings.max_streams),
      event_queue_(settings.max_streams),
      hungry_(settings.max_streams),
      buffer_waiters_(settings.max_streams) {
  // §5.10.4: 0, 1, 2 and the all-ones values are taken, and the upper half must be zero.
  if (settings.guest_cid <= kHostCid || settings.guest_cid >= 0xffff'ffff)
    throw Error(Kind::Invalid, "a guest's context id must be from 3 to 4294967294");
  if (settings.max_streams == 0 || settings.max_streams > kMaxStreams ||
      settings.stream_buffer == 0 || settings.stream_buffer > kMaxStreamBuffer)
    throw Error(Kind::Invalid, "vsock stream limits are out of range");
  if (next_port_ < kFirstPort || next_port_ >= kEndPort) next_port_ = kFirstPort;
  const size_t count = settings.max_streams;
  // Not zeroed: pages that no stream overflows into are never touched.
  arena_ = std::make_unique_for_overwrite<std::byte[]>(count * stream_buffer_);
  streams_.resize(count);
  buckets_.resize(std::bit_ceil(count));
  free_.reserve(count);
  for (size_t slot = count; slot-- > 0;) free_.push_back(static_cast<uint16_t>(slot));
}

std::span<const uint16_t> Vsock::queue_sizes() const noexcept { return kQueueSizes; }
ByteView Vsock::config() const noexcept { return std::as_bytes(std::span(&config_cid_, 1)); }
Queue* Vsock::queue(uint16_t index) noexcept { return queue_at(queues_, index); }

void Vsock::activate(QueueSet queues, Features) noexcept {
  queues_ = queues;
  active_ = true;
}

void Vsock::reset() noexcept {
  window_.reset();
  drop_all(VsockEvent::Reason::DeviceReset);
  active_ = false;
  gate_ = VsockGate::Running;
  reset_event_sent_.reset();
  transmit_pending_ = false;
  queues_ = {};
  effects_ = {};
}

// ---- the table ----------------------------------------------------------------------------------

size_t Vsock::bucket_index(Ports ports) const noexcept {
  // A guest that makes its ports collide makes itself scan at most max_streams entries.
  const uint32_t mixed = (ports.host * 0x9e37'79b1U + ports.guest) * 0x85eb'ca6bU;
  return (mixed >> 16) & (buckets_.size() - 1);
}
uint16_t& Vsock::bucket(Ports ports) noexcept { return buckets_[bucket_index(ports)]; }

uint16_t Vsock::slot_of(const Stream& stream) const noexcept {
  return static_cast<uint16_t>(&stream - streams_.data());
}
StreamId Vsock::id_of(const Stream& stream) const noexcept {
  return {slot_of(stream), stream.generation};
}

Vsock::Stream* Vsock::find(StreamId id) noexcept {
  if (id.slot >= streams_.size()) return nullptr;
  Stream& stream = streams_[id.slot];
  const bool valid =
      stream.phase != Phase::Free && stream.generation == id.generation && !stream.owner_gone;
  return valid ? &stream : nullptr;
}

// `living_only` leaves out streams that the guest has left: to it their ports are free again.
std::optional<uint16_t> Vsock::lookup(Ports ports, bool living_only) const noexcept {
  for (uint16_t link = buckets_[bucket_index(ports)]; link != 0;) {
    const auto slot = static_cast<uint16_t>(link - 1);
    const Stream& stream = streams_[slot];
    if (stream.ports == ports && !(living_only && stream.guest_gone)) return slot;
    link = stream.next_in_bucket;
  }
  return std::nullopt;
}

std::optional<uint16_t> Vsock::allocate(Ports ports) noexcept {
  if (free_.empty()) evict_lingering();
  if (free_.empty()) return std::nullopt;
  const uint16_t slot = free_.back();
  free_.pop_back();
  ++used_;
  Stream& stream = streams_[slot];
  Stream fresh;
  fresh.ports = ports;
  fresh.generation = stream.generation;
  // A queue that still names the slot will find nothing to do, or the new stream's business.
  fresh.control_listed = stream.control_listed;
  fresh.events_listed = stream.events_listed;
  fresh.buffers_listed = stream.buffers_listed;
  fresh.receive = ReceiveCredit(stream_buffer_);
  fresh.output = ByteRing(std::span(arena_.get() + size_t{slot} * stream_buffer_, stream_buffer_));
  fresh.next_in_bucket = std::exchange(bucket(ports), static_cast<uint16_t>(slot + 1));
  stream = fresh;
  return slot;
}

void Vsock::release_if_done(uint16_t slot) noexcept {
  Stream& stream = streams_[slot];
  if (stream.phase == Phase::Free || !stream.owner_gone || !stream.guest_gone ||
      stream.control != 0)
    return;
  uint16_t* link = &bucket(stream.ports);
  while (*link != slot + 1) link = &streams_[*link - 1U].next_in_bucket;
  *link = stream.next_in_bucket;
  stream.phase = Phase::Free;
  stream.waits_for_buffers = false;
  ++stream.generation;
  --used_;
  free_.push_back(slot);
}

// The stream that waits longest for the guest to confirm its end makes place for a new one.
void Vsock::evict_lingering() noexcept {
  Stream* oldest = nullptr;
  for (Stream& stream : streams_)
    if (stream.lingering_since != 0 && !stream.guest_gone &&
        (oldest == nullptr || stream.lingering_since < oldest->lingering_since))
      oldest = &stream;
  if (oldest == nullptr || orphan_count_ == orphans_.size()) return;
  orphan_reset(oldest->ports, kVsockStream);
  guest_left(*oldest, VsockEvent::Reason::Finished, false);
}

// ---- both ends ----------------------------------------------------------------------------------

void Vsock::emit(Stream& stream, VsockEvent::Kind kind) noexcept {
  if (stream.owner_gone) return;
  stream.events |= event_bit(kind);
  if (std::exchange(stream.events_listed, true)) return;
  event_queue_.push(slot_of(stream));
}

void Vsock::want(Stream& stream, uint8_t control) noexcept {
  stream.control |= control;
  if (std::exchange(stream.control_listed, true)) return;
  control_queue_.push(slot_of(stream));
}

// From now on the guest does not know the stream. `answer_reset`: it has yet to be told.
void Vsock::guest_left(Stream& stream, VsockEvent::Reason reason, bool answer_reset) noexcept {
  if (stream.guest_gone) return;
  stream.guest_gone = true;
  stream.reason = reason;
  stream.control = 0;
  stream.waits_for_credit = stream.waits_for_buffers = false;
  stream.events &= static_cast<uint8_t>(~event_bit(VsockEvent::Kind::Input));
  if (answer_reset) want(stream, kSendReset);
  after_output(stream);
  release_if_done(slot_of(stream));
}

void Vsock::owner_left(Stream& stream) noexcept {
  stream.owner_gone = true;
  stream.events = 0;
  stream.waits_for_credit = stream.waits_for_buffers = false;
  stream.receive.forward(static_cast<uint32_t>(stream.output.size()));
  stream.output.clear();
}

// What follows once everything the guest sent is with the host, or dropped.
void Vsock::after_output(Stream& stream) noexcept {
  if (!stream.output.empty()) return;
  if (stream.guest_gone) {
    emit(stream, VsockEvent::Kind::Closed);
    return;
  }
  if ((stream.guest_shutdown & kVsockNoSend) != 0 && !std::exchange(stream.output_ended, true))
    emit(stream, VsockEvent::Kind::EndOfOutput);
  if (stream.guest_shutdown == kBothDirections)
    guest_left(stream, VsockEvent::Reason::Finished, true);
}

void Vsock::drop_all(VsockEvent::Reason reason) noexcept {
  control_queue_.clear();
  hungry_.clear();
  buffer_waiters_.clear();
  orphan_count_ = 0;
  for (Stream& stream : streams_) {
    stream.control_listed = stream.buffers_listed = false;
    if (stream.phase == Phase::Free) continue;
    stream.control = 0;
    stream.events = 0;
    stream.output.clear();
    stream.reason = reason;
    stream.guest_gone = true;
    emit(stream, VsockEvent::Kind::Closed);
    release_if_done(slot_of(stream));
  }
}

std::optional<VsockEvent> Vsock::next_event() noexcept {
  while (!event_queue_.empty()) {
    const uint16_t slot = event_queue_.front();
    Stream& stream = streams_[slot];
    const auto bit = static_cast<unsigned>(std::countr_zero(stream.events));
    const bool any = stream.events != 0;
    stream.events &= static_cast<uint8_t>(stream.events - 1);
    if (stream.events == 0) {
      event_queue_.pop();
      stream.events_listed = false;
    }
    if (!any) continue;
    const VsockEvent event{.stream = id_of(stream),
                           .kind = static_cast<VsockEvent::Kind>(bit),
                           .reason = stream.reason,
                           .host_port = stream.ports.host,
                           .guest_port = stream.ports.guest};
    if (event.kind == VsockEvent::Kind::Closed) {
      owner_left(stream);
      release_if_done(slot);
    }
    return event;
  }
  return std::nullopt;
}

// ---- what the owner asks ------------------------------------------------------------------------

Expected<StreamId, Vsock::OpenError> Vsock::open(uint32_t guest_port) noexcept {
  if (!flowing()) return Unexpected{OpenError::NotReady};
  Ports ports{0, guest_port};
  // Ports go round, so that a new stream is not taken for one the guest still remembers. At most
  // one slot can be in the way of each try.
  for (size_t tries = 0; tries <= streams_.size(); ++tries) {
    ports.host = next_port_;
    next_port_ = next_port_ + 1 == kEndPort ? kFirstPort : next_port_ + 1;
    if (!lookup(ports, false)) break;
  }
  const auto slot = allocate(ports);
  if (!slot) return Unexpected{OpenError::Full};
  Stream& stream = streams_[*slot];
  stream.phase = Phase::Requested;
  want(stream, kSendRequest);
  flush_control();
  return id_of(stream);
}

void Vsock::opened(Stream& stream, uint8_t control) noexcept {
  stream.phase = Phase::Open;
  if (stream.host_shutdown != 0) control |= kSendShutdown;
  if (control != 0) want(stream, control);
}

bool Vsock::accept(StreamId id) noexcept {
  Stream* stream = find(id);
  if (stream == nullptr || stream->phase != Phase::Asked || stream->guest_gone) return false;
  opened(*stream, kSendResponse);
  flush_control();
  return true;
}

void Vsock::refuse(StreamId id) noexcept {
  const Stream* stream = find(id);
  if (stream != nullptr && stream->phase == Phase::Asked) reset(id);
}

void Vsock::end_input(StreamId id) noexcept {
  Stream* stream = find(id);
  if (stream == nullptr || stream->guest_gone) return;
  stream->host_shutdown |= kVsockNoSend;
  if (stream->phase == Phase::Open) want(*stream, kSendShutdown);
  flush_control();
}

void Vsock::stop_output(StreamId id) noexcept {
  Stream* stream = find(id);
  if (stream == nullptr) return;
  stream->host_shutdown |= kVsockNoReceive;
  stream->receive.forward(static_cast<uint32_t>(stream->output.size()));
  stream->output.clear();
  if (stream->phase == Phase::Open && !stream->guest_gone) want(*stream, kSendShutdown);
  after_output(*stream);
  flush_control();
}

void Vsock::close(StreamId id) noexcept {
  Stream* stream = find(id);
  if (stream == nullptr) return;
  if (stream->phase != Phase::Open || stream->guest_gone) return reset(id);
  owner_left(*stream);
  stream->host_shutdown = kBothDirections;
  stream->lingering_since = ++close_order_;
  want(*stream, kSendShutdown);
  after_output(*stream);
  flush_control();
}

void Vsock::reset(StreamId id) noexcept {
  Stream* stream = find(id);
  if (stream == nullptr) return;
  owner_left(*stream);
  guest_left(*stream, VsockEvent::Reason::Finished, true);
  release_if_done(slot_of(*stream));  // when the guest had left before
  flush_control();
}

bool Vsock::drain(StreamId id) noexcept {
  Stream* stream = find(id);
  if (stream == nullptr) return true;
  if ((stream->events & event_bit(VsockEvent::Kind::Connected)) != 0) return stream->output.empty();
  std::array<iovec, 2> pieces;
  const auto contents = stream->output.contents(pieces);
  if (!contents.empty()) {
    const size_t taken = std::min(host_.write(id, contents), stream->output.size());
    stream->output.consume(taken);
    stream->receive.forward(static_cast<uint32_t>(taken));
    if (!stream->guest_gone && stream->receive.announcement_due()) want(*stream, kSendCreditUpdate);
  }
  const bool empty = stream->output.empty();
  after_output(*stream);
  flush_control();
  return empty;
}

void Vsock::begin_transport_reset() noexcept {
  window_.reset();
  drop_all(VsockEvent::Reason::TransportReset);
  gate_ = VsockGate::Running;
  if (queue(kEventQueue) == nullptr) return;  // nobody to tell; unknown streams will be reset
  gate_ = VsockGate::ResetPending;
  reset_event_sent_.reset();
  process_events();
}

}
