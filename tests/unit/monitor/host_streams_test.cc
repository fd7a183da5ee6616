// The host ends of vsock streams, with real sockets on one side and a guest's driver on the other.
#include "../../../src/monitor/host_streams.h"

#include <algorithm>
#include <string>

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "support/vsock_guest.h"

namespace mvm::monitor {

using test::Packet;
using test::VsockGuest;
using virtio::VsockOp;

class HostStreamsTest : public testing::Test {
 protected:
  static constexpr uint32_t kPort = 7;
  static constexpr uint32_t kBuffer = 128 << 10;
  static constexpr uint32_t kBoth = virtio::kVsockNoReceive | virtio::kVsockNoSend;

  struct Peer {
    sys::Fd socket;  // the host program's end
    uint32_t host_port = 0;
    uint32_t guest_port = 0;
    std::string to_guest;  // what the guest got
    uint32_t shut = 0;     // flags of the SHUTDOWNs that the guest got
    bool reset = false;
  };

  HostStreamsTest() {
    ::signal(SIGPIPE, SIG_IGN);  // as the monitor does
    streams.attach(slot, device);
    guest.post(256);
  }
  // A stream that a host program opened and the guest accepted.
  Peer& connect(uint32_t guest_port) {
    auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
    sys::set_nonblocking(ours.get());
    streams.connect(std::move(theirs), guest_port, false);
    Peer& peer = peers.emplace_back();
    peer.socket = std::move(ours);
    peer.guest_port = guest_port;
    take_packets();
    guest.send(guest.header(guest_port, peer.host_port, VsockOp::Response));
    streams.handle_events();
    return peer;
  }
  // The guest takes what it was sent, gives credit for it, and posts its buffers again.
  void take_packets() {
    for (const Packet& packet : guest.received()) {
      const auto peer = std::find_if(peers.begin(), peers.end(), [&](const Peer& each) {
        return each.guest_port == packet.header.destination_port;
      });
      if (peer == peers.end()) continue;
      peer->host_port = packet.header.source_port;
      peer->to_guest += packet.payload;
      if (packet.op() == VsockOp::Shutdown) peer->shut |= packet.header.flags;
      if (packet.op() == VsockOp::Reset) peer->reset = true;
      if (packet.payload.empty()) continue;
      auto update = guest.header(peer->guest_port, peer->host_port, VsockOp::CreditUpdate);
      update.forwarded = static_cast<uint32_t>(peer->to_guest.size());
      guest.send(update);
    }
    guest.post(256);
    streams.handle_events();
  }
  // Turns of the loop and of the guest until `done`, which must come.
  template <typename Done>
  void turn_until(Done done) {
    for (int i = 0; !done(); ++i) {
      ASSERT_LT(i, 10'000);
      loop.run_once(std::chrono::milliseconds(0));
      take_packets();
    }
  }
  // The loop, once it has done what there was to do, sleeps: its next turn ends by a timer.
  bool rests() {
    for (int turn = 0; turn < 100; ++turn) loop.run_once(std::chrono::milliseconds(0));
    bool slept = false;
    const loop::Watch alarm = loop.after(std::chrono::milliseconds(20), [&slept] { slept = true; });
    loop.run_once(std::chrono::milliseconds(-1));
    return slept;
  }
  void write(const Peer& peer, std::string_view& data) const {
    const auto sent = sys::send_some(peer.socket.get(), as_bytes(data));
    data.remove_prefix(sent.value_or(0));
  }
  static std::string read(const Peer& peer) {
    std::string out(1 << 20, '\0');
    size_t have = 0;
    while (true) {
      const auto got =
          sys::read_some(peer.socket.get(), std::as_writable_bytes(std::span(out)).subspan(have));
      if (!got || *got == 0) break;
      have += *got;
    }
    out.resize(have);
    return out;
  }
  static std::string pattern(size_t length) {
    std::string out(length, '\0');
    for (size_t i = 0; i < length; ++i) out[i] = static_cast<char>((i * 2654435761U) >> 24);
    return out;
  }

  loop::Loop loop;
  memory::GuestMemory memory = memory::GuestMemory::create(VsockGuest::kMemory);
  std::vector<HostStreams::Token> asked;
  HostStreams streams{loop, [this](HostStreams::Token token, uint32_t) { asked.push_back(token); }};
  virtio::Vsock device{{.guest_cid = VsockGuest::kCid, .stream_buffer = kBuffer}, streams};
  DeviceSlot slot{memory, device, {0x1000'0000}, 5, [](uint32_t) {}};
  VsockGuest guest{memory, device};
  std::vector<Peer> peers;
};

TEST_F(HostStreamsTest, BytesArriveUnchangedBothWays) {
  Peer& peer = connect(kPort);
  const std::string data = pattern(3'000'000);
  std::string_view left = data;
  turn_until([&] {
    write(peer, left);
    return peer.to_guest.size() == data.size();
  });
  EXPECT_EQ(peer.to_guest, data);

  std::string back;
  for (size_t at = 0; at < data.size(); at += 50'000) {
    guest.send_data(kPort, peer.host_port, data.substr(at, 50'000));
    streams.handle_events();
    loop.run_once(std::chrono::milliseconds(0));
    back += read(peer);
  }
  turn_until([&] {
    back += read(peer);
    return back.size() == data.size();
  });
  EXPECT_EQ(back, data);
}

TEST_F(HostStreamsTest, HalfCloseByTheHostLeavesTheOtherWayOpen) {
  Peer& peer = connect(kPort);
  std::string_view last = "last words";
  write(peer, last);
  ASSERT_EQ(::shutdown(peer.socket.get(), SHUT_WR), 0);
  turn_until([&] { return peer.shut == virtio::kVsockNoSend; });
  EXPECT_EQ(peer.to_guest, "last words");
  EXPECT_FALSE(peer.reset);
  guest.send_data(kPort, peer.host_port, "an answer");
  streams.handle_events();
  EXPECT_EQ(read(peer), "an answer");
}

TEST_F(HostStreamsTest, TheGuestHearsOfAHostProgramThatDies) {
  Peer& peer = connect(kPort);
  std::string_view last = "last words";
  write(peer, last);
  peer.socket.reset();
  turn_until([&] { return peer.shut == kBoth; });
  EXPECT_EQ(peer.to_guest, "last words");
  guest.send(guest.header(kPort, peer.host_port, VsockOp::Reset));  // its confirmation
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(HostStreamsTest, TheGuestHearsOfAHostProgramThatDiesAfterItHalfClosed) {
  Peer& peer = connect(kPort);
  ASSERT_EQ(::shutdown(peer.socket.get(), SHUT_WR), 0);
  turn_until([&] { return peer.shut == virtio::kVsockNoSend; });
  peer.socket.reset();
  turn_until([&] { return peer.shut == kBoth; });
  guest.send(guest.header(kPort, peer.host_port, VsockOp::Reset));
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(HostStreamsTest, WhatADeadHostProgramCannotTakeIsReset) {
  Peer& peer = connect(kPort);
  peer.socket.reset();
  guest.send_data(kPort, peer.host_port, "x");
  streams.handle_events();
  take_packets();
  EXPECT_TRUE(peer.reset);
  EXPECT_EQ(device.stream_count(), 0U);
}

TEST_F(HostStreamsTest, AGuestThatBreaksOffEndsTheHostsSocket) {
  Peer& peer = connect(kPort);
  guest.send_data(kPort, peer.host_port, "before");
  guest.send(guest.header(kPort, peer.host_port, VsockOp::Reset));
  streams.handle_events();
  EXPECT_EQ(read(peer), "before");
  std::byte none{};
  EXPECT_EQ(sys::read_some(peer.socket.get(), std::span(&none, 1)), std::optional<size_t>(0));
  EXPECT_EQ(device.stream_count(), 0U);
}

// The bound is the credit: what the socket takes and one buffer of ours.
TEST_F(HostStreamsTest, AReaderThatStopsHoldsUpNobodyElse) {
  Peer& slow = connect(kPort);
  const uint32_t slow_port = slow.host_port;
  size_t sent = 0;
  const std::string block(16 << 10, 's');
  // Sends as long as the device's credit allows, which is what an honest guest does.
  auto credit = [&] {
    guest.send(guest.header(kPort, slow_port, VsockOp::CreditRequest));
    for (const Packet& packet : guest.received())
      if (packet.op() == VsockOp::CreditUpdate)
        return packet.header.forwarded + packet.header.buffer - static_cast<uint32_t>(sent);
    return 0U;
  };
  while (credit() >= block.size()) {
    guest.post(256);
    guest.send_data(kPort, slow_port, block);
    streams.handle_events();
    sent += block.size();
    ASSERT_LT(sent, 4U << 20) << "more was taken than a socket and a buffer hold";
  }
  guest.post(256);
  connect(kPort + 1);
  Peer& quick = peers.back();
  guest.send_data(kPort + 1, quick.host_port, "through");
  streams.handle_events();
  EXPECT_EQ(read(quick), "through");
  // The slow one reads again and loses nothing.
  std::string got;
  turn_until([&] {
    got += read(peers.front());
    return got.size() == sent;
  });
  EXPECT_EQ(std::count(got.begin(), got.end(), 's'), static_cast<std::ptrdiff_t>(sent));
}

// epoll tells of a hang-up, and of what is ready and not wanted, as often as it is asked.
TEST_F(HostStreamsTest, RestWhenNothingCanMove) {
  Peer& peer = connect(kPort);
  const std::string data = pattern(1 << 20);
  std::string_view left = data;
  // The host program sends, and the guest has no buffers and gives no credit.
  for (int i = 0; i < 50; ++i) {
    write(peer, left);
    loop.run_once(std::chrono::milliseconds(0));
  }
  EXPECT_TRUE(rests()) << "a guest that does not read";
  // The guest sends, and the host program does not read.
  for (int i = 0; i < 6; ++i) {
    guest.send_data(kPort, peer.host_port, std::string(16 << 10, 'x'));
    streams.handle_events();
  }
  EXPECT_TRUE(rests()) << "neither reads";
  ASSERT_EQ(::shutdown(peer.socket.get(), SHUT_WR), 0);
  EXPECT_TRUE(rests()) << "and the host program has half closed";
  ASSERT_EQ(::shutdown(peer.socket.get(), SHUT_RDWR), 0);
  EXPECT_TRUE(rests()) << "and then closed";
  peer.socket.reset();
  EXPECT_TRUE(rests()) << "and is gone";
}

TEST_F(HostStreamsTest, RestWhenTheHostProgramIsGoneAndTheGuestDoesNotAnswer) {
  for (uint32_t i = 0; i < 3; ++i) connect(kPort + i);
  std::string_view data = "unread";
  write(peers[0], data);
  ASSERT_EQ(::shutdown(peers[1].socket.get(), SHUT_WR), 0);
  for (Peer& peer : peers) peer.socket.reset();
  EXPECT_TRUE(rests());
}

TEST_F(HostStreamsTest, ServesAThousandStreamsAtOnce) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 4096) GTEST_SKIP() << "at most " << files.rlim_max << " descriptors here";
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  constexpr uint32_t kCount = 1000;
  peers.reserve(kCount);
  for (uint32_t i = 0; i < kCount; ++i) connect(1000 + i);
  EXPECT_EQ(device.stream_count(), kCount);
  for (const Peer& peer : peers) {
    const std::string text = "to " + std::to_string(peer.guest_port);
    std::string_view left = text;
    write(peer, left);
  }
  turn_until([&] {
    return std::all_of(peers.begin(), peers.end(), [](const Peer& peer) {
      return peer.to_guest == "to " + std::to_string(peer.guest_port);
    });
  });
  for (const Peer& peer : peers) {
    guest.send_data(peer.guest_port, peer.host_port, "from " + std::to_string(peer.guest_port));
    streams.handle_events();
    EXPECT_EQ(read(peer), "from " + std::to_string(peer.guest_port));
  }
  for (Peer& peer : peers) peer.socket.reset();
  turn_until([&] {
    return std::all_of(peers.begin(), peers.end(),
                       [](const Peer& peer) { return peer.shut == kBoth; });
  });
  for (const Peer& peer : peers)
    guest.send(guest.header(peer.guest_port, peer.host_port, VsockOp::Reset));
  streams.handle_events();
  EXPECT_EQ(device.stream_count(), 0U);
}

}
