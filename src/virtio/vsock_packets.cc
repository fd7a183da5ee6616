// Packets: what the guest sends is taken apart once and judged by the phase of its stream; what the
// guest is to be told is kept as bits of a stream until it has a buffer for it.

#include <algorithm>
#include <bit>
#include <utility>

#include "mvm/virtio/vsock.h"

namespace mvm::virtio {
namespace {

constexpr uint32_t kBothDirections = kVsockNoReceive | kVsockNoSend;

constexpr uint8_t event_bit(VsockEvent::Kind kind) noexcept {
  return static_cast<uint8_t>(1U << static_cast<unsigned>(kind));
}

constexpr uint16_t op_code(VsockOp op) noexcept { return static_cast<uint16_t>(op); }

}

Progress Vsock::process(uint16_t index) noexcept {
  if (!active_) return Progress::Idle;
  if (index == kEventQueue) process_events();
  if (!flowing()) return Progress::Idle;
  if (index == kReceiveQueue && flush_control()) wake_waiters();
  // A transmit queue that had to wait for receive buffers, or for the reset, goes on from here.
  if (index == kTransmitQueue || transmit_pending_) return process_transmit();
  return Progress::Idle;
}

void Vsock::wake_waiters() noexcept {
  wake(hungry_);
  wake(buffer_waiters_);
}

void Vsock::wake(SlotQueue& waiters) noexcept {
  while (!waiters.empty()) {
    Stream& stream = streams_[waiters.front()];
    waiters.pop();
    stream.buffers_listed = false;
    if (!std::exchange(stream.waits_for_buffers, false)) continue;
    stream.passed_over = true;
    emit(stream, VsockEvent::Kind::Input);
  }
}

// ---- from the guest -----------------------------------------------------------------------------

Progress Vsock::process_transmit() noexcept {
  Queue* transmit = queue(kTransmitQueue);
  if (transmit == nullptr) return Progress::Idle;
  Progress progress = Progress::Idle;
  transmit_pending_ = true;
  transmit->disable_notifications();
  for (uint32_t budget = kPacketsPerTurn;; --budget) {
    if (budget == 0) {
      progress = Progress::More;
      break;
    }
    // One packet may ask for two resets: its own, and one to make place. Without room the guest
    // must take what we have for it first; the receive queue's kick resumes here.
    if (orphan_count_ + 2 > orphans_.size() && !flush_control() &&
        orphan_count_ + 2 > orphans_.size())
      break;
    const auto popped = transmit->pop(chain_);
    if (!popped) {
      fail(popped.error());
      break;
    }
    if (*popped) {
      take_packet(chain_);
      transmit->push(chain_.head(), 0);
    } else if (!transmit->enable_notifications()) {
      transmit_pending_ = false;
      if (gate_ == VsockGate::ResetAcknowledged) gate_ = VsockGate::Running;
      break;
    }
  }
  if (transmit->should_notify()) effects_.used_buffers = true;
  flush_control();
  return progress;
}

void Vsock::take_packet(const Chain& chain) noexcept {
  ChainReader in = chain.reader();
  const auto header = in.read_value<VsockHeader>();
  if (!header) return;
  // Not from this guest, or not for this host: nobody to answer.
  if (header->source_cid != config_cid_ || header->destination_cid != kHostCid) return;
  const Ports ports{header->destination_port, header->source_port};
  const bool is_reset = header->op == op_code(VsockOp::Reset);
  if (header->type != kVsockStream) {
    if (!is_reset) orphan_reset(ports, header->type);
    return;
  }
  if (const auto slot = lookup(ports, true)) {
    take_stream_packet(streams_[*slot], *header, in);
    return;
  }
  if (header->op == op_code(VsockOp::Request)) {
    const auto slot = allocate(ports);
    if (!slot) return orphan_reset(ports, kVsockStream);
    Stream& stream = streams_[*slot];
    stream.phase = Phase::Asked;
    stream.send.update(header->buffer, header->forwarded);
    emit(stream, VsockEvent::Kind::ConnectRequest);
    return;
  }
  // A reset is never answered with one. After a transport reset the queue still holds packets of
  // streams that the guest has just been told are dead.
  if (!is_reset && gate_ != VsockGate::ResetAcknowledged) orphan_reset(ports, kVsockStream);
}

void Vsock::take_stream_packet(Stream& stream, const VsockHeader& header,
                               ChainReader& payload) noexcept {
  using Kind = VsockEvent::Kind;
  using Reason = VsockEvent::Reason;
  if (header.op == op_code(VsockOp::Reset)) {
    const bool over =
        stream.host_shutdown == kBothDirections || stream.guest_shutdown == kBothDirections;
    return guest_left(stream,
                      stream.phase == Phase::Requested ? Reason::Refused
                      : over                           ? Reason::Finished
                                                       : Reason::GuestReset,
                      false);
  }
  stream.send.update(header.buffer, header.forwarded);
  if (stream.waits_for_credit && stream.send.available() > 0) {
    stream.waits_for_credit = false;
    emit(stream, Kind::Input);
  }
  if (stream.phase == Phase::Requested && header.op == op_code(VsockOp::Response)) {
    opened(stream, 0);
    emit(stream, Kind::Connected);
    return;
  }
  if (stream.phase == Phase::Open) {
    switch (static_cast<VsockOp>(header.op)) {
      case VsockOp::ReadWrite:
        if ((stream.guest_shutdown & kVsockNoSend) != 0 || header.length > payload.remaining())
          break;
        return take_data(stream, payload, header.length);
      case VsockOp::Shutdown: {
        // Flags only ever come to be set.
        const uint32_t before = std::exchange(
            stream.guest_shutdown, stream.guest_shutdown | (header.flags & kBothDirections));
        if ((~before & stream.guest_shutdown & kVsockNoReceive) != 0)
          emit(stream, Kind::PeerStoppedReading);
        return after_output(stream);
      }
      case VsockOp::CreditUpdate:
        return;
      case VsockOp::CreditRequest:
        return want(stream, kSendCreditUpdate);
      default:
        break;
    }
  }
  guest_left(stream, Reason::ProtocolError, true);
}

void Vsock::take_data(Stream& stream, ChainReader& payload, uint32_t length) noexcept {
  if (length == 0) return;
  if (!stream.receive.receive(length))
    return guest_left(stream, VsockEvent::Reason::ProtocolError, true);
  size_t taken = 0;
  if (stream.owner_gone || (stream.host_shutdown & kVsockNoReceive) != 0) {
    taken = length;  // nobody wants it; the guest has been told or is about to be
  } else if (stream.output.empty() &&
             (stream.events & event_bit(VsockEvent::Kind::Connected)) == 0) {
    taken = std::min<size_t>(host_.write(id_of(stream), payload.gather(length, segments_)), length);
  }
  // What the host took counts as taken, whatever happens to the rest: nothing is ever offered
  // twice.
  payload.skip(taken);
  stream.receive.forward(static_cast<uint32_t>(taken));
  if (taken < length) {
    if (stream.output.empty()) emit(stream, VsockEvent::Kind::Output);
    stream.output.append(payload, length - taken);
  }
  if (stream.receive.announcement_due()) want(stream, kSendCreditUpdate);
}

void Vsock::orphan_reset(Ports ports, uint16_t type) noexcept {
  MVM_ASSERT(orphan_count_ < orphans_.size());
  orphans_[(orphan_head_ + orphan_count_++) % orphans_.size()] = {ports, type};
}

// ---- to the guest -------------------------------------------------------------------------------

VsockHeader Vsock::header_for(Ports ports, VsockOp op) const noexcept {
  VsockHeader header{};
  header.source_cid = kHostCid;
  header.destination_cid = config_cid_;
  header.source_port = ports.host;
  header.destination_port = ports.guest;
  header.type = kVsockStream;
  header.op = op_code(op);
  return header;
}

// Every packet of a stream carries its credit.
VsockHeader Vsock::header_for(Stream& stream, VsockOp op) const noexcept {
  VsockHeader header = header_for(stream.ports, op);
  header.buffer = stream.receive.buffer();
  header.forwarded = stream.receive.forwarded();
  if (op == VsockOp::Shutdown) header.flags = stream.host_shutdown;
  stream.receive.announced();
  return header;
}

// The next receive buffer, if the driver has posted one.
bool Vsock::pop_if_there(Chain& chain) noexcept {
  const auto popped = queue(kReceiveQueue)->pop(chain);
  if (!popped) {
    fail(popped.error());
    return false;
  }
  if (!*popped || chain.writable_length() > sizeof(VsockHeader)) return *popped;
  fail(QueueFault::BufferTooSmall);
  return false;
}

// The same; without one the driver is asked to kick.
bool Vsock::pop_receive(Chain& chain) noexcept {
  Queue* receive = queue(kReceiveQueue);
  if (receive == nullptr) return false;
  // Twice at most: an index that only moves forwards is there when it is looked at again.
  for (int look = 0; look < 2; ++look) {
    if (pop_if_there(chain)) return true;
    if (effects_.fault || !receive->enable_notifications()) return false;
  }
  return false;
}

bool Vsock::send_control(const VsockHeader& header) noexcept {
  if (!pop_receive(rx_chain_)) return false;
  rx_chain_.writer().write_value(header);
  queue(kReceiveQueue)->push(rx_chain_.head(), sizeof header);
  return true;
}

// Sends what is waiting, resets of no stream first. False when the guest's buffers ran out before.
bool Vsock::flush_control() noexcept {
  if (!flowing() || window_) return false;
  bool all = true;
  while (all && orphan_count_ > 0) {
    const Orphan& orphan = orphans_[orphan_head_];
    VsockHeader header = header_for(orphan.ports, VsockOp::Reset);
    header.type = orphan.type;
    all = send_control(header);
    if (!all) break;
    orphan_head_ = (orphan_head_ + 1) % orphans_.size();
    --orphan_count_;
  }
  while (all && !control_queue_.empty()) {
    static constexpr VsockOp kOps[] = {VsockOp::Request,      VsockOp::Response,
                                       VsockOp::CreditUpdate, VsockOp::CreditRequest,
                                       VsockOp::Shutdown,     VsockOp::Reset};
    const uint16_t slot = control_queue_.front();
    Stream& stream = streams_[slot];
    while (stream.control != 0) {
      all = send_control(header_for(stream, kOps[std::countr_zero(stream.control)]));
      if (!all) break;
      stream.control &= static_cast<uint8_t>(stream.control - 1);
    }
    if (!all) break;
    control_queue_.pop();
    stream.control_listed = false;
    release_if_done(slot);
  }
  Queue* receive = queue(kReceiveQueue);
  if (receive != nullptr && receive->should_notify()) effects_.used_buffers = true;
  return all;
}

void Vsock::wait_for_buffers(Stream& stream) noexcept {
  stream.waits_for_buffers = true;
  if (std::exchange(stream.buffers_listed, true)) return;
  (stream.passed_over ? hungry_ : buffer_waiters_).push(slot_of(stream));
}

std::span<const iovec> Vsock::begin_rx(StreamId id, size_t most) noexcept {
  if (window_) commit_rx(id_of(streams_[*window_]), 0);
  Stream* stream = find(id);
  if (stream == nullptr || stream->phase != Phase::Open || stream->guest_gone ||
      (stream->host_shutdown & kVsockNoSend) != 0 ||
      (stream->guest_shutdown & kVsockNoReceive) != 0 || !flowing())
    return {};
  // Control packets come first, or data could overtake the response that opens its stream.
  if (!flush_control()) {
    wait_for_buffers(*stream);
    return {};
  }
  const uint32_t credit = stream->send.available();
  if (credit == 0) {
    if (!std::exchange(stream->waits_for_credit, true)) {
      want(*stream, kSendCreditRequest);
      flush_control();
    }
    return {};
  }
  if (!pop_receive(window_buffers_.front().chain)) {
    wait_for_buffers(*stream);
    return {};
  }
  window_ = slot_of(*stream);
  window_packets_ = 0;
  size_t segments = 0;
  size_t left = std::min<size_t>({most, credit, kMaxPayload});
  do {
    WindowPacket& packet = window_buffers_.at(window_packets_++);
    ChainWriter payload = packet.chain.writer();
    payload.skip(sizeof(VsockHeader));
    packet.room = 0;
    for (const iovec& piece : payload.gather(left, std::span(segments_).subspan(segments))) {
      packet.room += piece.iov_len;
      ++segments;
    }
    left -= packet.room;
  } while (left > 0 && segments < segments_.size() && window_packets_ < window_buffers_.size() &&
           pop_if_there(window_buffers_.at(window_packets_).chain));
  return std::span(segments_).first(segments);
}

void Vsock::commit_rx(StreamId id, size_t length) noexcept {
  if (!window_ || id != id_of(streams_[*window_])) return;
  Stream& stream = streams_[*window_];
  window_.reset();
  Queue* receive = queue(kReceiveQueue);
  size_t used = 0;
  for (; length > 0; ++used) {
    MVM_ASSERT(used < window_packets_);
    const WindowPacket& packet = window_buffers_.at(used);
    const auto bytes = static_cast<uint32_t>(std::min(length, packet.room));
    VsockHeader header = header_for(stream, VsockOp::ReadWrite);
    header.length = bytes;
    packet.chain.writer().write_value(header);
    receive->push(packet.chain.head(), static_cast<uint32_t>(sizeof header) + bytes);
    stream.send.sent(bytes);
    length -= bytes;
  }
  if (used > 0) stream.passed_over = false;
  // The latest first: the queue takes back what it gave last.
  while (window_packets_ > used) receive->put_back(window_buffers_.at(--window_packets_).chain);
  if (used > 0 && receive->should_notify()) effects_.used_buffers = true;
}

// ---- transport reset ----------------------------------------------------------------------------

void Vsock::process_events() noexcept {
  Queue* events = queue(kEventQueue);
  if (gate_ != VsockGate::ResetPending || events == nullptr) return;
  if (!reset_event_sent_) send_reset_event(*events);
  // A driver publishes a buffer in place of the one it got once it has acted on the event.
  if (!reset_event_sent_ || !events->notify_beyond(*reset_event_sent_)) return;
  gate_ = VsockGate::ResetAcknowledged;
  // Its kick for packets queued before may have been lost with the old host.
  transmit_pending_ = true;
  flush_control();
}

void Vsock::send_reset_event(Queue& events) noexcept {
  for (int look = 0; look < 2; ++look) {
    const uint16_t before = events.published();
    const auto popped = events.pop(chain_);
    if (!popped) return fail(popped.error());
    if (*popped) {
      ChainWriter out = chain_.writer();
      if (out.write_value(kVsockEventTransportReset) < sizeof kVsockEventTransportReset)
        return fail(QueueFault::BufferTooSmall);
      events.push(chain_.head(), sizeof kVsockEventTransportReset);
      reset_event_sent_ = before;
      // Whatever the driver's wishes were before the snapshot: it must hear of this one.
      static_cast<void>(events.should_notify());
      effects_.used_buffers = true;
      return;
    }
    if (!events.enable_notifications()) return;  // its kick calls us again
  }
}

}
