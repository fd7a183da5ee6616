// Packets of a guest and calls of an owner in any order against the socket device. Most packets are
// what a driver that keeps the rules would send next, so that streams live long enough to get
// somewhere; the others are anything. Both sides keep a model of nothing but what they must know;
// the checks are that every packet to the guest is well formed and within the credit it gave, that
// ids are used once, that each stream ends exactly once, and that bytes to the host arrive in order
// and unchanged.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "input.h"
#include "support/vsock_guest.h"

using namespace mvm;
using namespace mvm::virtio;
using EventKind = VsockEvent::Kind;

namespace {

constexpr uint32_t kStreams = 4;
constexpr uint32_t kBuffer = 1024;
constexpr uint32_t kGuestBuffer = 8192;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(test::VsockGuest::kMemory);
  return memory;
}

struct Ports {
  uint32_t guest = 0;
  uint32_t host = 0;
  auto operator<=>(const Ports&) const = default;
};

// What a driver knows of a stream that it believes open.
struct Talk {
  bool open = false;
  bool honest = true;        // nothing but valid packets so far
  uint32_t sent = 0;         // bytes
  uint32_t got = 0;          // bytes
  uint32_t told = 0;         // of got, in the latest header we sent
  uint32_t host_buffer = 0;  // of the latest header
  uint32_t host_forwarded = 0;
  uint32_t shut = 0;  // flags
};

// Every byte of a stream is a running count, so a lost, repeated or foreign byte shows.
class OrderHost : public VsockHost {
 public:
  size_t write(StreamId stream, std::span<const iovec> data) noexcept override {
    MVM_ASSERT(live.contains({stream.slot, stream.generation}));
    size_t taken = 0;
    uint8_t& next = live[{stream.slot, stream.generation}];
    for (const iovec& segment : data) {
      for (size_t i = 0; i < segment.iov_len && room > 0; ++i, --room, ++taken)
        MVM_ASSERT(static_cast<const uint8_t*>(segment.iov_base)[i] == next++);
    }
    return taken;
  }
  std::map<std::pair<uint32_t, uint32_t>, uint8_t> live;
  size_t room = 0;
};

class Fuzzed {
 public:
  explicit Fuzzed(fuzz::Input& in) : in_(in) { guest_.post(16); }

  void run() {
    for (int steps = 0; steps < 200 && !in_.empty(); ++steps) {
      step();
      take_events();
      take_packets();
      MVM_ASSERT(device_.stream_count() <= kStreams);
      if (device_.take_effects().fault) return;
    }
  }

 private:
  void add(StreamId id) {
    const bool fresh = host_.live.emplace(std::pair{id.slot, id.generation}, uint8_t{0}).second;
    MVM_ASSERT(fresh);
    ids_.push_back(id);
  }
  void remove(StreamId id) {
    MVM_ASSERT(host_.live.erase({id.slot, id.generation}) == 1);
    std::erase(ids_, id);
  }
  void take_events() {
    while (const auto event = device_.next_event()) {
      if (event->kind == EventKind::ConnectRequest) {
        add(event->stream);
        if (in_.rarely(4)) {
          remove(event->stream);
          device_.refuse(event->stream);
        } else {
          device_.accept(event->stream);
        }
        continue;
      }
      MVM_ASSERT(std::find(ids_.begin(), ids_.end(), event->stream) != ids_.end());
      if (event->kind == EventKind::Closed) remove(event->stream);
    }
  }
  void take_packets() {
    for (const test::Packet& packet : guest_.received()) {
      const VsockHeader& header = packet.header;
      MVM_ASSERT(header.source_cid == kHostCid && header.destination_cid == test::VsockGuest::kCid);
      MVM_ASSERT(header.op >= 1 && header.op <= 7);
      const Ports ports{header.destination_port, header.source_port};
      hear(talks_[ports], packet);
      if (packet.op() == VsockOp::Request) {
        sent_[ports] = 0;
        auto answer = guest_.header(ports.guest, ports.host,
                                    in_.rarely(4) ? VsockOp::Reset : VsockOp::Response);
        answer.buffer = kGuestBuffer;
        guest_.queue_packet(answer);
        note(ports);
      }
      if (packet.op() == VsockOp::Reset) std::erase(ports_, ports);
    }
  }
  void hear(Talk& talk, const test::Packet& packet) {
    if (packet.op() == VsockOp::Request) talk = Talk();
    talk.open = packet.op() != VsockOp::Reset;
    talk.got += static_cast<uint32_t>(packet.payload.size());
    talk.host_buffer = packet.header.buffer;
    talk.host_forwarded = packet.header.forwarded;
    // The device keeps to the credit that it was given, whatever else happens.
    MVM_ASSERT(!talk.honest || packet.op() != VsockOp::ReadWrite ||
               talk.got - talk.told <= kGuestBuffer);
  }
  // The next packet of a driver that keeps the rules.
  void valid_packet() {
    if (guest_.tx().free_descriptors() < 4) return guest_.kick();
    const Ports ports = some_ports();
    Talk& talk = talks_[ports];
    VsockOp op = VsockOp::Request;
    std::string payload;
    uint32_t flags = 0;
    if (!talk.open) {
      const bool honest = talk.honest;  // what was sent before may still be on its way
      talk = Talk();
      talk.honest = honest;
      sent_[ports] = 0;
      note(ports);
    } else if (in_.rarely(12)) {
      op = VsockOp::Shutdown;
      flags = talk.shut |= 1 + in_.below(3);
    } else if (in_.rarely(3) || (talk.shut & kVsockNoSend) != 0) {
      op = in_.rarely(3) ? VsockOp::CreditRequest : VsockOp::CreditUpdate;
    } else {
      op = VsockOp::ReadWrite;
      const uint32_t credit = talk.host_buffer - (talk.sent - talk.host_forwarded);
      payload.resize(credit <= kBuffer ? std::min(credit, 1 + in_.below(400)) : 0);
      uint8_t next = sent_[ports];
      for (char& c : payload) c = static_cast<char>(next++);
      sent_[ports] = next;
      talk.sent += static_cast<uint32_t>(payload.size());
    }
    auto header = guest_.header(ports.guest, ports.host, op);
    header.buffer = kGuestBuffer;
    header.forwarded = talk.told = talk.got;
    header.flags = flags;
    header.length = static_cast<uint32_t>(payload.size());
    std::vector<uint32_t> cuts;
    if (in_.rarely(4)) cuts.push_back(1 + in_.below(60));
    guest_.queue_packet(header, payload, cuts);
    if (!in_.rarely(4)) guest_.kick();
  }
  void note(Ports ports) {
    if (std::find(ports_.begin(), ports_.end(), ports) == ports_.end()) ports_.push_back(ports);
    if (ports_.size() > 8) ports_.erase(ports_.begin());
  }
  Ports some_ports() {
    if (ports_.empty() || in_.rarely(8)) return {1 + in_.below(4), 80 + in_.below(2)};
    return ports_[in_.below(static_cast<uint32_t>(ports_.size()))];
  }
  void guest_packet() {
    if (guest_.tx().free_descriptors() < 4) return guest_.kick();
    const Ports ports = some_ports();
    talks_[ports].honest = false;
    auto op = static_cast<VsockOp>(in_.rarely(16) ? in_.u16() : 1 + in_.below(7));
    auto header = guest_.header(ports.guest, ports.host, op);
    header.buffer = in_.rarely(4) ? in_.u32() : 4096;
    header.forwarded = in_.rarely(8) ? in_.u32() : 0;
    if (op == VsockOp::Shutdown) header.flags = in_.below(4);
    std::string payload;
    if (op == VsockOp::ReadWrite) {
      payload.resize(in_.below(in_.rarely(8) ? 2000 : 300));
      uint8_t next = sent_[ports];
      for (char& c : payload) c = static_cast<char>(next++);
      sent_[ports] = next;
      header.length = static_cast<uint32_t>(payload.size());
      if (in_.rarely(32)) {
        header.length = in_.u32();
        if (header.length < payload.size())
          sent_[ports] -= static_cast<uint8_t>(payload.size() - header.length);
      }
    }
    note(ports);
    if (in_.rarely(32)) header.type = in_.u16();
    if (in_.rarely(32)) header.source_cid = in_.u64();
    std::vector<uint32_t> cuts;
    for (uint32_t i = in_.below(3); i > 0; --i) cuts.push_back(1 + in_.below(60));
    // A packet the device will not take counts for nothing.
    const bool taken = header.type == kVsockStream && header.source_cid == test::VsockGuest::kCid;
    if (taken && op == VsockOp::Request) sent_[ports] = 0;
    if (!taken && op == VsockOp::ReadWrite)
      sent_[ports] -=
          static_cast<uint8_t>(header.length <= payload.size() ? header.length : payload.size());
    guest_.queue_packet(header, payload, cuts);
    if (!in_.rarely(4)) guest_.kick();
  }
  void step() {
    const StreamId id = ids_.empty() ? StreamId{in_.below(6), in_.below(3)}
                                     : ids_[in_.below(static_cast<uint32_t>(ids_.size()))];
    const bool mine = std::find(ids_.begin(), ids_.end(), id) != ids_.end();
    switch (in_.below(16)) {
      case 0: {
        const auto opened = device_.open(1 + in_.below(4));
        if (opened) add(*opened);
        break;
      }
      case 1:
        device_.end_input(id);
        break;
      case 2:
        if (in_.rarely(2)) device_.stop_output(id);
        break;
      case 3:
        if (mine) remove(id);
        in_.rarely(2) ? device_.reset(id) : device_.close(id);
        break;
      case 4:
      case 5: {
        size_t room = 0;
        for (const iovec& segment : device_.begin_rx(id)) {
          std::memset(segment.iov_base, 0x55, segment.iov_len);
          room += segment.iov_len;
        }
        MVM_ASSERT(room <= Vsock::kMaxPayload);
        if (room > 0)
          device_.commit_rx(id, in_.rarely(4) ? 0 : 1 + in_.below(static_cast<uint32_t>(room)));
        break;
      }
      case 6:
        host_.room = in_.below(4096);
        device_.drain(id);
        break;
      case 7:
        guest_.post(1 + in_.below(8), in_.rarely(3) ? std::vector<uint32_t>{20, 30, 200}
                                                    : std::vector<uint32_t>{4096});
        break;
      case 8:
        if (guest_.events().free_descriptors() > 0) guest_.events().add({{0x50000, 4, true}});
        device_.process(Vsock::kEventQueue);
        while (guest_.events().take_used()) {
        }
        break;
      case 9:
        if (in_.rarely(8)) device_.begin_transport_reset();
        break;
      case 10:
        device_.process(static_cast<uint16_t>(in_.below(4)));
        break;
      case 11:
        guest_.kick();
        break;
      default:
        in_.rarely(4) ? guest_packet() : valid_packet();
    }
  }

  fuzz::Input& in_;
  OrderHost host_;
  Vsock device_{
      {.guest_cid = test::VsockGuest::kCid, .max_streams = kStreams, .stream_buffer = kBuffer},
      host_};
  test::VsockGuest guest_{guest_memory(), device_};
  std::vector<StreamId> ids_;
  std::vector<Ports> ports_;
  std::map<Ports, uint8_t> sent_;  // the running count, of streams of either kind
  std::map<Ports, Talk> talks_;
};

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Fuzzed(in).run();
  return 0;
}
