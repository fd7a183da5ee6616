// How streams end, what happens to a guest that breaks the rules, and resets of the whole device.

#include <algorithm>
#include <string>
#include <vector>

#include "vsock_fixture.h"

namespace mvm::virtio {
namespace {

// ---- the end ------------------------------------------------------------------------------------

TEST_F(VsockTest, HalfCloseByTheHostLeavesTheOtherHalfOpen) {
  const StreamId id = connect();
  EXPECT_EQ(send_to_guest(id, "last words"), 10U);
  device.end_input(id);
  const auto packets = guest.received();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].payload, "last words");
  EXPECT_EQ(packets[1].op(), VsockOp::Shutdown);
  EXPECT_EQ(packets[1].header.flags, kVsockNoSend);
  EXPECT_TRUE(device.begin_rx(id).empty());
  send_to_host("answer");
  EXPECT_EQ(host.output[id.slot], "answer");
  shut_down(kVsockNoReceive | kVsockNoSend);
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  EXPECT_EQ(kinds(), (std::vector{Kind::PeerStoppedReading, Kind::EndOfOutput, Kind::Closed}));
}

TEST_F(VsockTest, HalfCloseByTheGuestWaitsForItsDataToBeTaken) {
  const StreamId id = connect();
  host.room = 2;
  send_to_host("tail");
  shut_down(kVsockNoSend);
  EXPECT_EQ(kinds(), std::vector{Kind::Output}) << "the end comes after the data";
  EXPECT_EQ(send_to_guest(id, "still open"), 10U);
  host.room = SIZE_MAX / 2;
  EXPECT_TRUE(device.drain(id));
  EXPECT_EQ(host.output[id.slot], "tail");
  EXPECT_EQ(kinds(), std::vector{Kind::EndOfOutput});
  shut_down(kVsockNoReceive);  // flags add up
  EXPECT_EQ(kinds(), (std::vector{Kind::PeerStoppedReading, Kind::Closed}));
}

TEST_F(VsockTest, FullCloseByTheGuestIsConfirmedAfterItsDataIsTaken) {
  const StreamId id = connect();
  host.room = 0;
  send_to_host("data");
  shut_down(kVsockNoReceive | kVsockNoSend);
  EXPECT_TRUE(ops().empty());
  host.room = SIZE_MAX / 2;
  device.drain(id);
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  const auto got = events();
  EXPECT_EQ(got.back().kind, Kind::Closed);
  EXPECT_EQ(got.back().reason, Reason::Finished);
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(VsockTest, DataAfterTheGuestsOwnShutdownIsAnError) {
  connect();
  shut_down(kVsockNoSend);
  send_to_host("zombie");
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  EXPECT_EQ(events().back().reason, Reason::ProtocolError);
  EXPECT_TRUE(host.output.empty());
}

TEST_F(VsockTest, CloseIsOrderlyAndEndsWithTheGuestsReset) {
  const StreamId id = connect();
  device.close(id);
  const auto packets = guest.received();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op(), VsockOp::Shutdown);
  EXPECT_EQ(packets[0].header.flags, kVsockNoReceive | kVsockNoSend);
  EXPECT_EQ(device.stream_count(), 1U) << "until the guest confirms";
  send_to_host("nobody listens");
  EXPECT_TRUE(host.output.empty());
  guest.send(guest.header(kAgentPort, host_port, VsockOp::Reset));
  EXPECT_EQ(device.stream_count(), 0U);
  EXPECT_TRUE(guest.received().empty());
  EXPECT_TRUE(events().empty()) << "the owner knows";
}

TEST_F(VsockTest, CrossingClosesEndCleanly) {
  const StreamId id = connect();
  device.close(id);
  shut_down(kVsockNoReceive | kVsockNoSend);
  EXPECT_EQ(ops(), (std::vector{VsockOp::Shutdown, VsockOp::Reset}));
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(VsockTest, AGuestThatNeverConfirmsLosesItsOldestStreamFirst) {
  std::vector<uint32_t> ports;
  for (uint32_t i = 0; i < kStreams; ++i) {
    const StreamId id = connect(100 + i);
    ports.push_back(host_port);
    device.close(id);
    guest.received();
  }
  EXPECT_EQ(device.stream_count(), kStreams);
  ASSERT_TRUE(device.open(7));
  const auto packets = guest.received();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].op(), VsockOp::Reset);
  EXPECT_EQ(packets[0].header.source_port, ports[0]);
  EXPECT_EQ(packets[0].header.destination_port, 100U);
  EXPECT_EQ(packets[1].op(), VsockOp::Request);
}

TEST_F(VsockTest, ResetByTheOwnerTellsTheGuestOnce) {
  const StreamId id = connect();
  device.reset(id);
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  EXPECT_EQ(device.stream_count(), 0U);
  device.reset(id);
  EXPECT_TRUE(ops().empty());
}

TEST_F(VsockTest, ResetByTheGuestStillDeliversWhatItSent) {
  const StreamId id = connect();
  host.room = 0;
  send_to_host("parting gift");
  guest.send(guest.header(kAgentPort, host_port, VsockOp::Reset));
  EXPECT_EQ(kinds(), std::vector{Kind::Output});
  // To the guest the ports are free again.
  guest.send(guest.header(kAgentPort, host_port, VsockOp::Request));
  EXPECT_EQ(kinds(), std::vector{Kind::ConnectRequest});
  host.room = SIZE_MAX / 2;
  EXPECT_TRUE(device.drain(id));
  EXPECT_EQ(host.output[id.slot], "parting gift");
  const auto got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].reason, Reason::GuestReset);
  EXPECT_TRUE(guest.received().empty());
}

TEST_F(VsockTest, StopOutputDiscardsAndTellsTheGuest) {
  const StreamId id = connect();
  host.room = 0;
  send_to_host(pattern(100));
  device.stop_output(id);
  const auto packets = guest.received();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].header.flags, kVsockNoReceive);
  EXPECT_EQ(packets[0].header.forwarded, 100U);
  for (int i = 0; i < 10; ++i) send_to_host(pattern(kBuffer / 4));
  EXPECT_TRUE(host.output[id.slot].empty());
  EXPECT_EQ(send_to_guest(id, "other half"), 10U);
}

// ---- breaking the rules -------------------------------------------------------------------------

TEST_F(VsockTest, PacketsOfNoStreamAreReset) {
  for (uint16_t op = 0; op <= 9; ++op) {
    if (op == static_cast<uint16_t>(VsockOp::Request)) continue;
    auto packet = guest.header(5, 6, static_cast<VsockOp>(op));
    guest.send(packet);
    const auto packets = guest.received();
    if (op == static_cast<uint16_t>(VsockOp::Reset)) {
      EXPECT_TRUE(packets.empty());
      continue;
    }
    ASSERT_EQ(packets.size(), 1U) << op;
    EXPECT_EQ(packets[0].op(), VsockOp::Reset);
    EXPECT_EQ(packets[0].header.source_port, 6U);
    EXPECT_EQ(packets[0].header.destination_port, 5U);
  }
}

TEST_F(VsockTest, OtherTypesAreResetInTheirOwnType) {
  connect();
  for (const uint16_t type : std::initializer_list<uint16_t>{0, 2, 3, 0xffff}) {
    for (const VsockOp op : {VsockOp::Request, VsockOp::ReadWrite, VsockOp::Reset}) {
      auto packet = guest.header(kAgentPort, host_port, op);
      packet.type = type;
      guest.send(packet);
      const auto packets = guest.received();
      ASSERT_EQ(packets.size(), op == VsockOp::Reset ? 0U : 1U);
      if (!packets.empty()) {
        EXPECT_EQ(packets[0].header.type, type);
      }
    }
  }
  EXPECT_TRUE(events().empty()) << "the stream of these ports is not touched";
}

TEST_F(VsockTest, ForeignAddressesAreIgnored) {
  connect();
  for (const uint64_t source : {uint64_t{0}, uint64_t{2}, uint64_t{4}, UINT64_MAX}) {
    auto packet = guest.header(kAgentPort, host_port, VsockOp::Reset);
    packet.source_cid = source;
    guest.send(packet);
  }
  for (const uint64_t destination :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{1} << 32 | 2}) {
    auto packet = guest.header(kAgentPort, host_port, VsockOp::Reset);
    packet.destination_cid = destination;
    guest.send(packet);
  }
  EXPECT_TRUE(events().empty());
  EXPECT_TRUE(guest.received().empty());
}

TEST_F(VsockTest, ShortPacketsAreDropped) {
  for (uint32_t length = 1; length < 44; ++length) {
    guest.tx().add({{VsockGuest::kTxBase, length, false}});
    guest.kick();
  }
  guest.tx().add({{VsockGuest::kTxBase, 44, true}});  // nothing to read
  guest.kick();
  EXPECT_TRUE(guest.received().empty());
  EXPECT_FALSE(device.take_effects().fault);
}

// Every operation in every phase: only the legal ones leave the stream alive.
TEST_F(VsockTest, IllegalOperationsEndTheStream) {
  enum class Phase { Requested, Asked, Open };
  for (const Phase phase : {Phase::Requested, Phase::Asked, Phase::Open}) {
    for (uint16_t op = 0; op <= 10; ++op) {
      guest.post(8);
      uint32_t guest_port = kAgentPort;
      uint32_t port = 80;
      if (phase == Phase::Open) {
        connect();
        port = host_port;
      } else if (phase == Phase::Requested) {
        ASSERT_TRUE(device.open(guest_port));
        port = guest.received().at(0).header.source_port;
      } else {
        guest.send(guest.header(guest_port, port, VsockOp::Request));
        EXPECT_EQ(kinds(), std::vector{Kind::ConnectRequest});
      }
      guest.send(guest.header(guest_port, port, static_cast<VsockOp>(op)));
      const auto packets = ops();
      const bool reset = std::count(packets.begin(), packets.end(), VsockOp::Reset) == 1;
      bool legal = op == 3;
      if (phase == Phase::Requested) legal = legal || op == 2;
      if (phase == Phase::Open) legal = legal || (op >= 4 && op <= 7);
      EXPECT_EQ(reset, !legal) << static_cast<int>(phase) << ' ' << op;
      const auto got = events();
      const bool closed = !got.empty() && got.back().kind == Kind::Closed;
      EXPECT_EQ(closed, !legal || op == 3) << static_cast<int>(phase) << ' ' << op;
      if (!closed) {
        guest.send(guest.header(guest_port, port, VsockOp::Reset));
        events();
      }
      guest.received();
      ASSERT_EQ(device.stream_count(), 0U);
    }
  }
}

TEST_F(VsockTest, AGuestThatTakesNoRepliesOnlyStopsItself) {
  FakeHost other_host;
  Vsock other({.max_streams = 4, .stream_buffer = kBuffer}, other_host);
  VsockGuest hostile(memory, other);  // no receive buffers at all
  size_t sent = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 64; ++i) {
      if (hostile.tx().free_descriptors() == 0) break;
      hostile.queue_packet(hostile.header(7, 8, VsockOp::ReadWrite));
      ++sent;
    }
    hostile.kick();
  }
  EXPECT_LT(hostile.tx().used_index(), sent) << "the transmit queue is held";
  EXPECT_LE(hostile.tx().used_index(), Vsock::kMaxPendingResets);
  // With buffers everything goes on by itself.
  size_t resets = 0;
  for (int round = 0; round < 20; ++round) {
    hostile.post(128);
    hostile.kick();
    for (const Packet& packet : hostile.received()) resets += packet.op() == VsockOp::Reset;
  }
  EXPECT_EQ(resets, sent);
}

TEST_F(VsockTest, ControlPacketsOfStreamsWaitForBuffers) {
  FakeHost other_host;
  Vsock other({.max_streams = 4, .stream_buffer = kBuffer}, other_host);
  VsockGuest slow(memory, other);
  const auto id = other.open(kAgentPort);
  ASSERT_TRUE(id);
  EXPECT_TRUE(slow.received().empty());
  slow.post(1);
  EXPECT_EQ(slow.received().at(0).op(), VsockOp::Request);
  other.reset(*id);
  EXPECT_EQ(other.stream_count(), 1U) << "until the reset is out";
  slow.post(1);
  EXPECT_EQ(slow.received().at(0).op(), VsockOp::Reset);
  EXPECT_EQ(other.stream_count(), 0U);
}

TEST_F(VsockTest, AReceiveBufferWithoutRoomForAPayloadIsAFault) {
  FakeHost other_host;
  Vsock other({.max_streams = 4, .stream_buffer = kBuffer}, other_host);
  VsockGuest broken(memory, other);
  broken.post(1, {44});
  static_cast<void>(other.open(1));
  EXPECT_EQ(other.take_effects().fault, QueueFault::BufferTooSmall);
}

TEST_F(VsockTest, OneTurnIsBounded) {
  connect();
  auto packet = guest.header(kAgentPort, host_port, VsockOp::CreditUpdate);
  for (uint32_t i = 0; i < Vsock::kPacketsPerTurn + 1; ++i) guest.queue_packet(packet);
  EXPECT_EQ(device.process(Vsock::kTransmitQueue), Progress::More);
  EXPECT_EQ(device.process(Vsock::kTransmitQueue), Progress::Idle);
}

TEST_F(VsockTest, SettingsAreChecked) {
  const auto make = [&](VsockSettings settings) { Vsock{settings, host}; };
  for (const uint64_t cid : {uint64_t{0}, uint64_t{2}, uint64_t{0xffffffff}, uint64_t{1} << 32})
    EXPECT_THROW(make({.guest_cid = cid}), Error);
  EXPECT_THROW(make({.max_streams = 0}), Error);
  EXPECT_THROW(make({.max_streams = Vsock::kMaxStreams + 1}), Error);
  EXPECT_THROW(make({.stream_buffer = 0}), Error);
  EXPECT_THROW(make({.stream_buffer = Vsock::kMaxStreamBuffer + 1}), Error);
}

// ---- resets of the device and of the transport --------------------------------------------------

TEST_F(VsockTest, DeviceResetClosesEveryStreamAndComesBack) {
  const StreamId id = connect();
  host.room = 0;
  send_to_host("lost");
  device.reset();
  const auto got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].stream, id);
  EXPECT_EQ(got[0].reason, Reason::DeviceReset);
  EXPECT_EQ(device.stream_count(), 0U);
  VsockGuest again(memory, device);
  again.post(4);
  EXPECT_TRUE(device.open(1));
  EXPECT_EQ(again.received().at(0).op(), VsockOp::Request);
}

class TransportReset : public VsockTest {
 protected:
  void post_event_buffer() {
    guest.events().add({{0x50000, 4, true}});
    device.process(Vsock::kEventQueue);
  }
};

TEST_F(TransportReset, TheGuestLearnsOfItBeforeAnythingElse) {
  for (int i = 0; i < 4; ++i) post_event_buffer();
  const StreamId id = connect();
  // A packet of the dead stream, and a new request, are in the queue when the snapshot is taken.
  auto data = guest.header(kAgentPort, host_port, VsockOp::ReadWrite);
  data.length = 4;
  guest.queue_packet(data, "dead");
  guest.queue_packet(guest.header(55, 80, VsockOp::Request));

  device.begin_transport_reset();
  EXPECT_EQ(device.gate(), VsockGate::ResetPending);
  auto got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].stream, id);
  EXPECT_EQ(got[0].reason, Reason::TransportReset);
  EXPECT_TRUE(device.take_effects().used_buffers) << "signalled, not only queued";
  const auto used = guest.events().take_used();
  ASSERT_TRUE(used);
  EXPECT_EQ(used->length, 4U);
  EXPECT_EQ(guest.events().get<uint32_t>(0x50000), kVsockEventTransportReset);

  // Kicks of any queue do not open the gate.
  EXPECT_FALSE(device.open(1));
  device.process(Vsock::kReceiveQueue);
  device.process(Vsock::kTransmitQueue);
  device.process(Vsock::kEventQueue);
  EXPECT_EQ(device.gate(), VsockGate::ResetPending);
  EXPECT_TRUE(events().empty());
  EXPECT_TRUE(guest.received().empty());

  // The returned buffer does, and the transmit queue goes on without a kick of its own.
  post_event_buffer();
  EXPECT_EQ(device.gate(), VsockGate::Running);
  got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, Kind::ConnectRequest);
  EXPECT_TRUE(guest.received().empty()) << "the dead stream's packet is not answered";
  EXPECT_TRUE(device.open(1));
}

TEST_F(TransportReset, WaitsForAnEventBuffer) {
  device.begin_transport_reset();
  EXPECT_EQ(device.gate(), VsockGate::ResetPending);
  EXPECT_FALSE(guest.events().take_used());
  post_event_buffer();
  EXPECT_TRUE(guest.events().take_used());
  EXPECT_EQ(device.gate(), VsockGate::ResetPending);
  post_event_buffer();
  EXPECT_EQ(device.gate(), VsockGate::Running);
}

TEST_F(TransportReset, AsksForAKickBeyondTheBuffersThatWereThere) {
  for (int i = 0; i < 4; ++i) post_event_buffer();
  device.begin_transport_reset();
  EXPECT_EQ(guest.events().avail_event(), 4) << "so that the fifth buffer kicks, with event index";
}

TEST_F(TransportReset, TheBacklogMayTakeSeveralTurns) {
  post_event_buffer();
  for (uint32_t i = 0; i < Vsock::kPacketsPerTurn + 10; ++i)
    guest.queue_packet(guest.header(9, 10, VsockOp::CreditUpdate));
  device.begin_transport_reset();
  guest.events().add({{0x50000, 4, true}});
  EXPECT_EQ(device.process(Vsock::kEventQueue), Progress::More);
  EXPECT_EQ(device.gate(), VsockGate::ResetAcknowledged);
  EXPECT_EQ(device.process(Vsock::kEventQueue), Progress::Idle);
  EXPECT_EQ(device.gate(), VsockGate::Running);
  EXPECT_TRUE(guest.received().empty());
  guest.send(guest.header(9, 10, VsockOp::CreditUpdate));
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset}) << "answered again";
}

TEST_F(TransportReset, AnOrdinaryResumeDoesNotArmTheGate) {
  connect();
  EXPECT_EQ(device.gate(), VsockGate::Running);
  device.process(Vsock::kEventQueue);
  EXPECT_EQ(device.gate(), VsockGate::Running);
}

}
}
