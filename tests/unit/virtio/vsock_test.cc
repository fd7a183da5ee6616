// Streams between guest and host: opening, data in any shape both ways, and credit.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "vsock_fixture.h"

namespace mvm::virtio {
namespace {

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

TEST_F(VsockTest, OneReadFillsSeveralBuffersAndGivesBackTheOthers) {
  const StreamId id = connect();
  guest.received();
  constexpr size_t kRoom = 4096 - sizeof(VsockHeader);
  const std::string data = pattern(2 * kRoom + 100);
  EXPECT_EQ(send_to_guest(id, data), data.size());
  auto packets = guest.received();
  ASSERT_EQ(packets.size(), 3U);
  EXPECT_EQ(packets[0].payload + packets[1].payload + packets[2].payload, data);
  EXPECT_EQ(packets[1].payload.size(), kRoom);
  EXPECT_EQ(guest.queues()[0]->in_flight(), 0U);
  // What came back is used next, in order.
  EXPECT_EQ(send_to_guest(id, "next"), 4U);
  EXPECT_EQ(guest.received().at(0).payload, "next");
}

TEST_F(VsockTest, RoomIsNoMoreThanWasAskedFor) {
  const StreamId id = connect();
  for (const size_t most : {size_t{1}, size_t{4096}, size_t{10'000}}) {
    size_t total = 0;
    for (const iovec& segment : device.begin_rx(id, most)) total += segment.iov_len;
    EXPECT_EQ(total, most);
    device.commit_rx(id, 0);
  }
}

TEST_F(VsockTest, CreditBoundsAllBuffersTogether) {
  const StreamId id = connect();
  guest.received();
  auto update = guest.header(kAgentPort, host_port, VsockOp::CreditUpdate);
  update.buffer = 5000;
  guest.send(update);
  EXPECT_EQ(send_to_guest(id, pattern(9000)), 5000U);
  const auto packets = guest.received();
  ASSERT_EQ(packets.size(), 3U);  // the last asks for credit
  EXPECT_EQ(packets[0].payload.size() + packets[1].payload.size(), 5000U);
}

TEST_F(VsockTest, ABadBufferBehindGoodOnesIsAFault) {
  const StreamId id = connect();
  device.take_effects();
  while (!device.begin_rx(id, 1).empty()) device.commit_rx(id, 1);
  guest.received();
  guest.post(2);
  guest.post(1, {sizeof(VsockHeader)});
  EXPECT_FALSE(device.begin_rx(id).empty());
  EXPECT_EQ(device.take_effects().fault, QueueFault::BufferTooSmall);
  device.commit_rx(id, 10);
  EXPECT_EQ(guest.received().at(0).payload.size(), 10U);
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
