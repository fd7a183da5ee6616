#pragma once
// A socket device with a guest and a host at its two ends, and short names for what they do.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/virtio/vsock.h"

#include "support/vsock_guest.h"

namespace mvm::virtio {

using memory::GuestMemory;
using test::FakeHost;
using test::Packet;
using test::VsockGuest;
using Kind = VsockEvent::Kind;
using Reason = VsockEvent::Reason;

inline constexpr uint32_t kAgentPort = 5252;
inline constexpr uint32_t kBuffer = 4096;
inline constexpr uint32_t kStreams = 8;

inline std::string pattern(size_t length, unsigned seed = 0) {
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

}
