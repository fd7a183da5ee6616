// Streams between guest and host: opening, data in any shape, credit, half-close, and every way to
// break the rules.

#include "mvm/virtio/vsock.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

#include "support/vsock_guest.h"

namespace mvm::virtio {
namespace {

using memory::GuestMemory;
using test::FakeHost;
using test::Packet;
using test::VsockGuest;
using Kind = VsockEvent::Kind;
using Reason = VsockEvent::Reason;

constexpr uint32_t kAgentPort = 5252;
constexpr uint32_t kBuffer = 4096;
constexpr uint32_t kStreams = 8;

std::string pattern(size_t length, unsigned seed = 0) {
  std::string out(length, '\0');
  for (size_t i = 0; i < length; ++i) out[i] = static_cast<char>((i * 7 + seed) & 0xff);
  return out;
}

class VsockTest : public testing::Test {
 protected:
  std::vector<VsockEvent> events() {
    std::vector<VsockEvent> out;
    while (const auto event = device.next_event()) out.push_back(*event);
    return out;
  }
  std::vector<Kind> kinds() {
    std::vector<Kind> out;
    for (const VsockEvent& event : events()) out.push_back(event.kind);
    return out;
  }
  std::vector<VsockOp> ops() {
    std::vector<VsockOp> out;
    for (const Packet& packet : guest.received()) out.push_back(packet.op());
    return out;
  }
  // A stream the host opened and the guest accepted.
  StreamId connect(uint32_t guest_port = kAgentPort) {
    const auto id = device.open(guest_port);
    EXPECT_TRUE(id);
    const auto packets = guest.received();
    EXPECT_EQ(packets.size(), 1U);
    host_port = packets.at(0).header.source_port;
    guest.send(guest.header(guest_port, host_port, VsockOp::Response));
    const auto got = events();
    EXPECT_EQ(got.size(), 1U);
    EXPECT_EQ(got.at(0).kind, Kind::Connected);
    EXPECT_EQ(got.at(0).stream, *id);
    return *id;
  }
  void send_to_host(const std::string& data, const std::vector<uint32_t>& cuts = {}) {
    guest.send_data(kAgentPort, host_port, data, cuts);
  }
  void shut_down(uint32_t flags) {
    auto packet = guest.header(kAgentPort, host_port, VsockOp::Shutdown);
    packet.flags = flags;
    guest.send(packet);
  }
  // Sends as the owner does; returns how much went.
  size_t send_to_guest(StreamId id, std::string_view data) {
    size_t done = 0;
    while (done < data.size()) {
      const auto room = device.begin_rx(id);
      if (room.empty()) break;
      size_t step = 0;
      for (const iovec& segment : room) {
        const size_t bytes = std::min(segment.iov_len, data.size() - done - step);
        std::memcpy(segment.iov_base, data.data() + done + step, bytes);
        step += bytes;
      }
      device.commit_rx(id, step);
      done += step;
    }
    return done;
  }

  GuestMemory memory = GuestMemory::create(VsockGuest::kMemory);
  FakeHost host;
  Vsock device{{.guest_cid = VsockGuest::kCid, .max_streams = kStreams, .stream_buffer = kBuffer},
               host};
  VsockGuest guest{memory, device};
  uint32_t host_port = 0;
  void SetUp() override { guest.post(64); }
};

// ---- opening ------------------------------------------------------------------------------------

TEST_F(VsockTest, HostOpensAndGuestAccepts) {
  const auto id = device.open(kAgentPort);
  ASSERT_TRUE(id);
  const auto packets = guest.received();
  ASSERT_EQ(packets.size(), 1U);
  const VsockHeader& header = packets[0].header;
  EXPECT_EQ(packets[0].op(), VsockOp::Request);
  EXPECT_EQ(header.source_cid, kHostCid);
  EXPECT_EQ(header.destination_cid, VsockGuest::kCid);
  EXPECT_EQ(header.destination_port, kAgentPort);
  EXPECT_EQ(header.type, kVsockStream);
  EXPECT_EQ(header.buffer, kBuffer);
  EXPECT_EQ(header.forwarded, 0U);
  EXPECT_TRUE(device.take_effects().used_buffers);
  EXPECT_TRUE(events().empty());
  guest.send(guest.header(kAgentPort, header.source_port, VsockOp::Response));
  EXPECT_EQ(kinds(), std::vector{Kind::Connected});
}

TEST_F(VsockTest, GuestRefuses) {
  ASSERT_TRUE(device.open(kAgentPort));
  const uint32_t port = guest.received().at(0).header.source_port;
  guest.send(guest.header(kAgentPort, port, VsockOp::Reset));
  const auto got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, Kind::Closed);
  EXPECT_EQ(got[0].reason, Reason::Refused);
  EXPECT_TRUE(guest.received().empty()) << "a reset is never answered with one";
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(VsockTest, GuestOpensAndHostAccepts) {
  guest.send(guest.header(1000, 80, VsockOp::Request));
  const auto got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, Kind::ConnectRequest);
  EXPECT_EQ(got[0].host_port, 80U);
  EXPECT_EQ(got[0].guest_port, 1000U);
  EXPECT_TRUE(guest.received().empty()) << "the owner has not decided";
  device.accept(got[0].stream);
  EXPECT_EQ(ops(), std::vector{VsockOp::Response});
  guest.send_data(1000, 80, "hello");
  EXPECT_EQ(host.output[got[0].stream.slot], "hello");
}

TEST_F(VsockTest, HostRefuses) {
  guest.send(guest.header(1000, 80, VsockOp::Request));
  device.refuse(events().at(0).stream);
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  EXPECT_EQ(device.stream_count(), 0U);
  EXPECT_TRUE(events().empty());
}

TEST_F(VsockTest, GuestGivesUpBeforeTheOwnerDecides) {
  guest.send(guest.header(1000, 80, VsockOp::Request));
  guest.send(guest.header(1000, 80, VsockOp::Reset));
  const auto got = events();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].kind, Kind::ConnectRequest);
  EXPECT_EQ(got[1].kind, Kind::Closed);
  device.accept(got[0].stream);
  EXPECT_TRUE(guest.received().empty());
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(VsockTest, IdsOfEndedStreamsAreDeadForGood) {
  const StreamId first = connect();
  device.reset(first);
  guest.received();
  const StreamId second = connect();
  EXPECT_EQ(first.slot, second.slot);
  EXPECT_NE(first, second);
  device.reset(first);
  device.close(first);
  device.end_input(first);
  EXPECT_TRUE(device.begin_rx(first).empty());
  EXPECT_TRUE(device.drain(first));
  EXPECT_TRUE(guest.received().empty());
  EXPECT_FALSE(device.begin_rx(second).empty());
  device.commit_rx(second, 0);
  device.reset(StreamId{99999, 0});
}

TEST_F(VsockTest, HostPortsGoRoundAndAreNotUsedTwiceAtOnce) {
  std::set<uint32_t> ports;
  for (int i = 0; i < 50; ++i) {
    const StreamId id = connect();
    EXPECT_TRUE(ports.insert(host_port).second);
    EXPECT_GE(host_port, Vsock::kFirstPort);
    device.reset(id);
    guest.received();
    guest.post(2);
  }
  // A restored device goes on where it was, and wraps at the end.
  Vsock late({.max_streams = 4, .stream_buffer = kBuffer, .next_port = Vsock::kEndPort - 1}, host);
  VsockGuest other(memory, late);
  other.post(8);
  ASSERT_TRUE(late.open(1));
  ASSERT_TRUE(late.open(1));
  const auto packets = other.received();
  EXPECT_EQ(packets.at(0).header.source_port, Vsock::kEndPort - 1);
  EXPECT_EQ(packets.at(1).header.source_port, Vsock::kFirstPort);
  EXPECT_EQ(late.next_port(), Vsock::kFirstPort + 1);
}

TEST_F(VsockTest, StreamsAreBounded) {
  for (uint32_t i = 0; i < kStreams; ++i) ASSERT_TRUE(device.open(i + 1));
  const auto refused = device.open(99);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Vsock::OpenError::Full);
  guest.received();
  guest.send(guest.header(1000, 80, VsockOp::Request));
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  EXPECT_TRUE(events().empty());
}

TEST_F(VsockTest, OpenNeedsADriver) {
  device.reset();
  const auto refused = device.open(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Vsock::OpenError::NotReady);
}

// ---- data to the host ---------------------------------------------------------------------------

// Header and payload cut at every place, in two and in many.
TEST_F(VsockTest, TakesPacketsInAnyDescriptorShape) {
  const StreamId id = connect();
  std::string expected;
  const auto check = [&](const std::vector<uint32_t>& cuts) {
    const std::string data = pattern(20, static_cast<unsigned>(expected.size()));
    send_to_host(data, cuts);
    expected += data;
    ASSERT_EQ(host.output[id.slot], expected);
    guest.received();
    guest.post(4);
  };
  for (uint32_t cut = 0; cut <= 64; ++cut) check({cut});
  for (uint32_t first = 1; first < 64; first += 5)
    for (uint32_t second = 1; second < 64 - first; second += 7) check({first, second});
  check(std::vector<uint32_t>(64, 1));
}

TEST_F(VsockTest, WhatTheHostDoesNotTakeWaitsInOrder) {
  const StreamId id = connect();
  host.room = 10;
  const std::string data = pattern(3000);
  send_to_host(data.substr(0, 1000));
  send_to_host(data.substr(1000));
  EXPECT_EQ(kinds(), std::vector{Kind::Output}) << "said once";
  EXPECT_EQ(host.writes, 1) << "later data never overtakes";
  EXPECT_FALSE(device.drain(id));
  host.room = 500;
  EXPECT_FALSE(device.drain(id));
  EXPECT_EQ(host.output[id.slot], data.substr(0, 510));
  host.room = SIZE_MAX / 2;
  EXPECT_TRUE(device.drain(id));
  EXPECT_EQ(host.output[id.slot], data);
}

TEST_F(VsockTest, DataIsHeldUntilTheOwnerHasSeenConnected) {
  const auto id = device.open(kAgentPort);
  host_port = guest.received().at(0).header.source_port;
  guest.queue_packet(guest.header(kAgentPort, host_port, VsockOp::Response));
  auto data = guest.header(kAgentPort, host_port, VsockOp::ReadWrite);
  data.length = 5;
  guest.queue_packet(data, "early");
  guest.kick();
  EXPECT_EQ(host.writes, 0);
  EXPECT_FALSE(device.drain(*id));
  EXPECT_EQ(kinds(), (std::vector{Kind::Connected, Kind::Output}));
  EXPECT_TRUE(device.drain(*id));
  EXPECT_EQ(host.output[id->slot], "early");
}

TEST_F(VsockTest, TheAdvertisedBufferCanBeFilledExactlyAndNotAByteMore) {
  const StreamId id = connect();
  host.room = 0;
  send_to_host(pattern(kBuffer));
  EXPECT_EQ(kinds(), std::vector{Kind::Output});
  EXPECT_TRUE(ops().empty());
  send_to_host("x");
  EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
  // What came within the rules is still the host's.
  EXPECT_TRUE(events().empty()) << "not closed while bytes wait";
  host.room = SIZE_MAX / 2;
  EXPECT_TRUE(device.drain(id));
  EXPECT_EQ(host.output[id.slot], pattern(kBuffer));
  const auto got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, Kind::Closed);
  EXPECT_EQ(got[0].reason, Reason::ProtocolError);
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(VsockTest, AHugeLengthFieldIsAnErrorNotASize) {
  connect();
  auto packet = guest.header(kAgentPort, host_port, VsockOp::ReadWrite);
  for (const uint32_t length : {6U, 0x7fffffffU, 0xffffffffU}) {
    packet.length = length;
    guest.send(packet, "12345");
    EXPECT_EQ(ops(), std::vector{VsockOp::Reset});
    EXPECT_EQ(events().at(0).reason, Reason::ProtocolError);
    guest.post(4);
    connect();
    packet.destination_port = host_port;
  }
  EXPECT_TRUE(host.output.empty());
}

TEST_F(VsockTest, CreditIsReturnedOnceHalfIsUsed) {
  connect();
  send_to_host(pattern(kBuffer / 2));
  EXPECT_TRUE(ops().empty()) << "half is still free in the guest's eyes";
  send_to_host("x");
  auto packets = guest.received();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op(), VsockOp::CreditUpdate);
  EXPECT_EQ(packets[0].header.forwarded, kBuffer / 2 + 1);
  EXPECT_EQ(packets[0].header.buffer, kBuffer);
  // While the host takes nothing there is nothing to announce.
  host.room = 0;
  send_to_host(pattern(kBuffer - 10));
  EXPECT_TRUE(ops().empty());
}

TEST_F(VsockTest, DrainingReturnsCredit) {
  const StreamId id = connect();
  host.room = 0;
  send_to_host(pattern(kBuffer));
  EXPECT_TRUE(ops().empty());
  host.room = 1;
  device.drain(id);
  EXPECT_EQ(ops(), std::vector{VsockOp::CreditUpdate});
}

TEST_F(VsockTest, CreditRequestIsAnswered) {
  connect();
  guest.send(guest.header(kAgentPort, host_port, VsockOp::CreditRequest));
  EXPECT_EQ(ops(), std::vector{VsockOp::CreditUpdate});
}

// ---- data to the guest --------------------------------------------------------------------------

TEST_F(VsockTest, DataGoesStraightIntoTheGuestsBufferWhateverItsShape) {
  const StreamId id = connect();
  guest.received();
  while (!device.begin_rx(id).empty()) device.commit_rx(id, 1);  // use up the plain buffers
  guest.received();
  events();
  for (uint32_t cut = 1; cut < 60; ++cut) {
    guest.post(1, {cut, 60 - cut});
    EXPECT_EQ(kinds(), std::vector{Kind::Input});
    const std::string data = pattern(16, cut);
    EXPECT_EQ(send_to_guest(id, data + "more than fits"), 16U);
    const auto packets = guest.received();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].op(), VsockOp::ReadWrite);
    EXPECT_EQ(packets[0].payload, data);
  }
}

TEST_F(VsockTest, GivesTheBufferBackWhenThereWasNothingToSend) {
  const StreamId id = connect();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(device.begin_rx(id).empty());
    device.commit_rx(id, 0);
  }
  EXPECT_EQ(guest.queues()[0]->in_flight(), 0U);
  EXPECT_TRUE(guest.received().empty());
  EXPECT_EQ(send_to_guest(id, "now"), 3U);
  EXPECT_EQ(guest.received().at(0).payload, "now");
}

TEST_F(VsockTest, PeerCreditIsRespectedToTheByte) {
  ASSERT_TRUE(device.open(kAgentPort));
  host_port = guest.received().at(0).header.source_port;
  auto response = guest.header(kAgentPort, host_port, VsockOp::Response);
  response.buffer = 100;
  guest.send(response);
  const StreamId id = events().at(0).stream;
  EXPECT_EQ(send_to_guest(id, pattern(1000)), 100U);
  auto packets = guest.received();
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(packets[0].payload, pattern(100));
  EXPECT_EQ(packets[1].op(), VsockOp::CreditRequest);
  EXPECT_TRUE(device.begin_rx(id).empty());
  EXPECT_TRUE(guest.received().empty()) << "asked once";
  auto update = guest.header(kAgentPort, host_port, VsockOp::CreditUpdate);
  update.buffer = 100;
  update.forwarded = 0;
  guest.send(update);
  EXPECT_TRUE(events().empty()) << "no news";
  update.forwarded = 30;
  guest.send(update);
  EXPECT_EQ(kinds(), std::vector{Kind::Input});
  EXPECT_EQ(send_to_guest(id, pattern(1000)), 30U);
}

TEST_F(VsockTest, NonsenseCreditMeansNoCredit) {
  const StreamId id = connect();
  auto update = guest.header(kAgentPort, host_port, VsockOp::CreditUpdate);
  for (const uint32_t forwarded : {1U, 0x80000000U, 0xffffffffU}) {
    update.forwarded = forwarded;  // more than was ever sent, or wrapped
    update.buffer = 0;
    guest.send(update);
    EXPECT_TRUE(device.begin_rx(id).empty());
  }
  update.forwarded = 5;
  update.buffer = 0xffffffff;
  guest.send(update);
  const auto room = device.begin_rx(id);
  size_t total = 0;
  for (const iovec& segment : room) total += segment.iov_len;
  EXPECT_LE(total, 4096 - sizeof(VsockHeader));
  device.commit_rx(id, 0);
}

TEST_F(VsockTest, ReceiveBuffersAreSharedFairly) {
  const StreamId a = connect(1);
  const StreamId b = connect(2);
  while (!device.begin_rx(a).empty()) device.commit_rx(a, 1);
  EXPECT_TRUE(device.begin_rx(b).empty());
  guest.received();
  std::vector<uint32_t> served;
  for (int round = 0; round < 6; ++round) {
    guest.post(1);
    for (const VsockEvent& event : events()) {
      if (event.kind != Kind::Input) continue;
      if (!device.begin_rx(event.stream).empty()) {
        device.commit_rx(event.stream, 1);
        served.push_back(event.stream.slot);
        static_cast<void>(device.begin_rx(event.stream));  // wants more: waits again
      }
    }
  }
  EXPECT_EQ(std::count(served.begin(), served.end(), a.slot), 3);
  EXPECT_EQ(std::count(served.begin(), served.end(), b.slot), 3);
}

TEST_F(VsockTest, NothingIsSentBeyondWhatTheGuestCanTake) {
  const StreamId id = connect();
  auto update = guest.header(kAgentPort, host_port, VsockOp::CreditUpdate);
  update.buffer = 0xffffffff;
  guest.send(update);
  guest.post(1, {65536, 65536 - 44, 4096});
  size_t largest = 0;
  for (;;) {
    size_t total = 0;
    for (const iovec& segment : device.begin_rx(id)) total += segment.iov_len;
    if (total == 0) break;
    largest = std::max(largest, total);
    device.commit_rx(id, 1);
  }
  EXPECT_EQ(largest, Vsock::kMaxPayload);
}

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

// ---- arithmetic ---------------------------------------------------------------------------------

TEST(VsockCredit, SendCreditWrapsWithItsCounters) {
  SendCredit credit;
  credit.update(1000, 0);
  uint32_t sent = 0;
  // Past the wrap of all counters, in uneven steps.
  for (uint64_t total = 0; total < (uint64_t{1} << 32) + 5000;) {
    ASSERT_LE(credit.available(), 1000U);
    if (total > 10'000 && total < (uint64_t{1} << 32) - 10'000) {
      credit = SendCredit();  // jump over the dull middle
      sent = static_cast<uint32_t>((uint64_t{1} << 32) - 10'000);
      total = sent;
      credit.sent(sent);
      credit.update(1000, sent);
    }
    const uint32_t step = std::min(credit.available(), 333U);
    credit.sent(step);
    sent += step;
    total += step;
    ASSERT_EQ(credit.available(), 1000 - step);
    credit.update(1000, sent);
    ASSERT_EQ(credit.available(), 1000U);
  }
}

TEST(VsockCredit, ReceiveCreditWrapsWithItsCounters) {
  ReceiveCredit credit(1000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(credit.receive(1000));
    ASSERT_FALSE(credit.receive(1));
    ASSERT_FALSE(credit.receive(0xffffffff));
    ASSERT_TRUE(credit.receive(0));
    credit.forward(1000);
    ASSERT_TRUE(credit.announcement_due());
    credit.announced();
    ASSERT_FALSE(credit.announcement_due());
    ASSERT_EQ(credit.held(), 0U);
  }
  // Close to 2^32.
  ReceiveCredit late(0x80000000);
  ASSERT_TRUE(late.receive(0x80000000));
  late.forward(0x80000000);
  ASSERT_TRUE(late.receive(0x80000000));
  ASSERT_FALSE(late.receive(1));
  EXPECT_EQ(late.held(), 0x80000000U);
}

TEST(VsockByteRing, KeepsOrderAcrossItsEnd) {
  const auto memory = GuestMemory::create(1 << 20);
  std::vector<std::byte> storage(7);
  ByteRing ring(storage);
  uint8_t in = 0, out = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t add = static_cast<size_t>(round * 5) % (8 - ring.size());
    for (size_t i = 0; i < add; ++i) memory.write_value({0x1000 + i}, static_cast<uint8_t>(in + i));
    in = static_cast<uint8_t>(in + add);
    iovec source{memory.slice({0x1000}, 16)->data(), 16};
    ChainReader reader(std::span(&source, 1));
    ring.append(reader, add);
    const size_t take = static_cast<size_t>(round * 3) % (ring.size() + 1);
    std::array<iovec, 2> pieces;
    std::string contents;
    for (const iovec& piece : ring.contents(pieces))
      contents.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    ASSERT_EQ(contents.size(), ring.size());
    for (size_t i = 0; i < take; ++i) ASSERT_EQ(static_cast<uint8_t>(contents[i]), out++);
    ring.consume(take);
  }
}

}
}
