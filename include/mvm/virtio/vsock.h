#pragma once
// The socket device (virtio 1.2 §5.10), host side in user space: many byte streams between guest
// ports and host ports over three queues.
//
// This is the protocol only. The owner (the monitor) holds the host's sockets, one a stream, and
// talks to the device in four ways:
//
//   calls      open, accept, refuse, end_input, stop_output, close, reset
//   events     next_event() after every call into the device or its transport, until it is empty
//   to guest   begin_rx() gives room in the guest's next buffers, as many as one read of the
//   owner's
//              socket may fill; commit_rx() sends what was read, a packet a buffer, and gives the
//              others back. No room means: stop polling the socket until Input.
//   to host    VsockHost::write takes what it can of a packet in guest memory. What it does not
//              take goes into a buffer of the size that is advertised as credit, so there is always
//              room; event Output tells the owner to wait for its socket and call drain().
//
// Life of a stream. It has two ends, each of which lets go of it once: the guest (by RST, by both
// SHUTDOWN flags once the buffer is drained, or by a breach of the protocol) and the owner (by
// close, reset or refuse, or by taking the event Closed). A slot is free when both have and no
// control packet is left to send. So an id is never valid for two streams, and a stream that the
// guest has left still delivers all it sent.
//
//   Requested --RESPONSE--> Open        the host asked: REQUEST is on its way
//   Asked     --accept()--> Open        the guest asked: the owner decides
//
// A stream that the owner closed lingers until the guest confirms. Should it never, the oldest such
// stream makes place when the table is full.
//
// Transport reset, for a restored guest: streams are gone on the host and the guest must learn it
// before anything else is put into its queues.
//
//   Running --begin_transport_reset()--> ResetPending       streams dropped, event for the guest;
//                                                           nothing is received or transmitted
//   ResetPending --guest returns the event buffer--> ResetAcknowledged
//                                                           flows again; what was queued before the
//                                                           snapshot is dropped, not answered
//   ResetAcknowledged --transmit queue found empty--> Running
//
// Every bound is on this side: streams, buffer a stream, pending resets, packets a turn. A guest
// that does not take its control packets only stops its own transmit queue.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "mvm/base/expected.h"
#include "mvm/virtio/device.h"
#include "mvm/virtio/vsock_packet.h"
#include "mvm/virtio/vsock_stream.h"

namespace mvm::virtio {

struct StreamId {
  uint32_t slot = 0;
  uint32_t generation = 0;
  bool operator==(const StreamId&) const noexcept = default;
};

class VsockHost {
 public:
  virtual ~VsockHost() = default;
  // Takes as many bytes as it can without waiting, in order; returns how many. 0 also when the
  // socket is broken: close or reset the stream afterwards, for this must not call the device. The
  // segments are guest memory. Never called for a stream whose event Connected is not yet taken.
  virtual size_t write(StreamId stream, std::span<const iovec> data) noexcept = 0;
};

struct VsockEvent {
  enum class Kind : uint8_t {
    ConnectRequest,      // the guest asks for host_port: accept() or refuse()
    Connected,           // the guest accepted what open() asked for
    Input,               // begin_rx() may have room again
    PeerStoppedReading,  // the guest takes no more input
    Output,              // bytes wait for the host: drain() when the socket can take some
    EndOfOutput,         // the guest sends no more and all it sent is taken: shut down writing
    Closed,              // the end; the id is not valid any more
  };
  enum class Reason : uint8_t {
    Finished,        // both directions were shut down in order
    Refused,         // answer to open(): nobody listens there
    GuestReset,      // the guest broke it off
    ProtocolError,   // the guest broke the protocol, or sent beyond its credit
    DeviceReset,     // the driver reset the device
    TransportReset,  // begin_transport_reset()
  };
  StreamId stream;
  Kind kind = Kind::Closed;
  Reason reason = Reason::Finished;  // of Closed
  uint32_t host_port = 0;
  uint32_t guest_port = 0;
};

struct VsockSettings {
  uint64_t guest_cid = 3;  // above 2
  uint32_t max_streams = 1024;
  uint32_t stream_buffer = 128 << 10;  // bytes; credit given to the guest for each stream
  uint32_t next_port = 1U << 30;       // where host-side ports continue, across a snapshot
};

enum class VsockGate : uint8_t { Running, ResetPending, ResetAcknowledged };

class Vsock : public Device {
 public:
  static constexpr uint16_t kReceiveQueue = 0;
  static constexpr uint16_t kTransmitQueue = 1;
  static constexpr uint16_t kEventQueue = 2;
  static constexpr uint32_t kMaxPayload = 64 << 10;  // to the guest at once, in all packets
  static constexpr size_t kMaxWindow = 16;           // packets at once: Linux posts pages
  static constexpr uint32_t kMaxStreams = 1024;
  static constexpr uint32_t kMaxStreamBuffer = 1 << 20;
  static constexpr size_t kMaxPendingResets = 256;  // for packets of no stream
  static constexpr uint32_t kPacketsPerTurn = 64;
  // Host-side ports of open(), away from those somebody may listen on.
  static constexpr uint32_t kFirstPort = 1U << 30;
  static constexpr uint32_t kEndPort = 1U << 31;

  // `host` must outlive the device. Throws Error{Invalid} for settings out of bounds. Allocates all
  // it will ever need: max_streams * stream_buffer bytes of address space, touched only as used.
  Vsock(const VsockSettings& settings, VsockHost& host);

  enum class OpenError : uint8_t { NotReady, Full };
  // Asks the guest for a connection; Connected or Closed{Refused} follows. The guest may take for
  // ever: reset() the stream when patience ends.
  Expected<StreamId, OpenError> open(uint32_t guest_port) noexcept;
  // Answers ConnectRequest. accept() is false when the guest has given up meanwhile.
  bool accept(StreamId stream) noexcept;
  void refuse(StreamId stream) noexcept;
  // The host sends no more, or takes no more. What was committed before is delivered first.
  void end_input(StreamId stream) noexcept;
  void stop_output(StreamId stream) noexcept;
  // The host's socket is gone. close() is orderly: both SHUTDOWN flags, and the guest reads what it
  // has. reset() breaks off. The id is not valid afterwards; all calls ignore ids that are not.
  void close(StreamId stream) noexcept;
  void reset(StreamId stream) noexcept;

  // Room in guest memory for bytes to the guest, as far as its next buffers and its credit go, and
  // no further than `most`; empty when there is none. Followed by commit_rx() in the same hold of
  // the lock, with how many bytes were put there, counted from the start; 0 gives all back.
  std::span<const iovec> begin_rx(StreamId stream, size_t most = kMaxPayload) noexcept;
  void commit_rx(StreamId stream, size_t length) noexcept;
  // Offers buffered bytes to VsockHost::write. True when nothing is left.
  bool drain(StreamId stream) noexcept;

  std::optional<VsockEvent> next_event() noexcept;

  // Before a restored guest runs.
  void begin_transport_reset() noexcept;
  VsockGate gate() const noexcept { return gate_; }
  uint32_t next_port() const noexcept { return next_port_; }
  size_t stream_count() const noexcept { return used_; }

  DeviceId id() const noexcept override { return DeviceId::Vsock; }
  Features features() const noexcept override { return Features(); }
  std::span<const uint16_t> queue_sizes() const noexcept override;
  ByteView config() const noexcept override;
  void activate(QueueSet queues, Features negotiated) noexcept override;
  void reset() noexcept override;
  Progress process(uint16_t queue) noexcept override;
  Effects take_effects() noexcept override { return effects_.take(); }

 private:
  enum class Phase : uint8_t { Free, Requested, Asked, Open };
  // Control packets a stream still has to send, in this order.
  enum Control : uint8_t {
    kSendRequest = 1,
    kSendResponse = 2,
    kSendCreditUpdate = 4,
    kSendCreditRequest = 8,
    kSendShutdown = 16,
    kSendReset = 32,
  };
  struct Ports {
    uint32_t host = 0;
    uint32_t guest = 0;
    bool operator==(const Ports&) const noexcept = default;
  };
  struct Stream {
    Ports ports;
    uint32_t generation = 0;
    Phase phase = Phase::Free;
    bool owner_gone = false;
    bool guest_gone = false;
    VsockEvent::Reason reason = VsockEvent::Reason::Finished;
    uint8_t control = 0;  // Control bits
    uint8_t events = 0;   // bits by VsockEvent::Kind
    bool control_listed = false;
    bool events_listed = false;
    bool buffers_listed = false;
    uint32_t host_shutdown = 0;   // flags we sent or are about to send
    uint32_t guest_shutdown = 0;  // flags the guest sent
    bool output_ended = false;    // EndOfOutput was given
    bool waits_for_credit = false;
    bool waits_for_buffers = false;
    bool passed_over = false;      // woken, but others took the buffers
    uint64_t lingering_since = 0;  // order of close(); 0 is not lingering
    uint16_t next_in_bucket = 0;   // slot + 1
    SendCredit send;
    ReceiveCredit receive;
    ByteRing output;
  };
  // Slots in the order they came; a stream is in it at most once, so it cannot overflow.
  class SlotQueue {
   public:
    explicit SlotQueue(size_t capacity) : slots_(capacity) {}
    bool empty() const noexcept { return size_ == 0; }
    size_t size() const noexcept { return size_; }
    void push(uint16_t slot) noexcept;
    uint16_t front() const noexcept { return slots_[head_]; }
    void pop() noexcept;
    void clear() noexcept { head_ = size_ = 0; }

   private:
    std::vector<uint16_t> slots_;
    size_t head_ = 0;
    size_t size_ = 0;
  };

  Queue* queue(uint16_t index) noexcept;
  void fail(QueueFault fault) noexcept { effects_.fault = fault; }

  // Streams (vsock.cc).
  Stream* find(StreamId id) noexcept;
  std::optional<uint16_t> lookup(Ports ports, bool living_only) const noexcept;
  std::optional<uint16_t> allocate(Ports ports) noexcept;
  void evict_lingering() noexcept;
  void release_if_done(uint16_t slot) noexcept;
  uint16_t slot_of(const Stream& stream) const noexcept;
  StreamId id_of(const Stream& stream) const noexcept;
  uint16_t& bucket(Ports ports) noexcept;
  size_t bucket_index(Ports ports) const noexcept;
  void emit(Stream& stream, VsockEvent::Kind kind) noexcept;
  void want(Stream& stream, uint8_t control) noexcept;
  void guest_left(Stream& stream, VsockEvent::Reason reason, bool answer_reset) noexcept;
  void owner_left(Stream& stream) noexcept;
  void after_output(Stream& stream) noexcept;
  void drop_all(VsockEvent::Reason reason) noexcept;

  // Packets (vsock_packets.cc).
  Progress process_transmit() noexcept;
  void process_events() noexcept;
  void send_reset_event(Queue& events) noexcept;
  void wake_waiters() noexcept;
  void wake(SlotQueue& waiters) noexcept;
  void take_packet(const Chain& chain) noexcept;
  void take_stream_packet(Stream& stream, const VsockHeader& header, ChainReader& payload) noexcept;
  void take_data(Stream& stream, ChainReader& payload, uint32_t length) noexcept;
  void orphan_reset(Ports ports, uint16_t type) noexcept;
  bool send_control(const VsockHeader& header) noexcept;
  bool flush_control() noexcept;
  bool pop_receive(Chain& chain) noexcept;
  bool pop_if_there(Chain& chain) noexcept;
  VsockHeader header_for(Ports ports, VsockOp op) const noexcept;
  VsockHeader header_for(Stream& stream, VsockOp op) const noexcept;
  void opened(Stream& stream, uint8_t control) noexcept;
  void wait_for_buffers(Stream& stream) noexcept;
  bool flowing() const noexcept { return active_ && gate_ != VsockGate::ResetPending; }

  struct Orphan {
    Ports ports;
    uint16_t type;
  };

  VsockHost& host_;
  uint64_t config_cid_;
  uint32_t stream_buffer_;
  uint32_t next_port_;
  bool active_ = false;
  VsockGate gate_ = VsockGate::Running;
  // Where the event queue stood when the reset event was put into it.
  std::optional<uint16_t> reset_event_sent_;
  bool transmit_pending_ = false;  // the transmit queue was not found empty
  QueueSet queues_;
  Effects effects_;

  std::unique_ptr<std::byte[]> arena_;
  std::vector<Stream> streams_;
  std::vector<uint16_t> free_;     // slots, a stack
  std::vector<uint16_t> buckets_;  // slot + 1, by hash of the ports
  SlotQueue control_queue_;
  SlotQueue event_queue_;
  // Streams that want receive buffers. Those that were woken in vain come first next time, or one
  // that always finds work would take every buffer.
  SlotQueue hungry_;
  SlotQueue buffer_waiters_;
  size_t used_ = 0;
  uint64_t close_order_ = 0;
  std::array<Orphan, kMaxPendingResets> orphans_{};
  size_t orphan_head_ = 0;
  size_t orphan_count_ = 0;

  // Between begin_rx() and commit_rx(): whose it is, and the buffers with what each may take.
  struct WindowPacket {
    Chain chain;
    size_t room = 0;
  };
  std::optional<uint16_t> window_;  // slot
  size_t window_packets_ = 0;
  std::array<WindowPacket, kMaxWindow> window_buffers_;
  Chain chain_;     // transmit and event queues
  Chain rx_chain_;  // receive queue, control packets
  std::array<iovec, kMaxQueueSize> segments_;
};

}
