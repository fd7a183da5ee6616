#pragma once
// The guest's driver of a socket device, and a host whose sockets take as much as a test lets them.

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "mvm/virtio/vsock.h"

#include "support/active_device.h"

namespace mvm::test {

struct Packet {
  virtio::VsockHeader header{};
  std::string payload;
  virtio::VsockOp op() const { return static_cast<virtio::VsockOp>(header.op); }
};

class FakeHost : public virtio::VsockHost {
 public:
  size_t write(virtio::StreamId stream, std::span<const iovec> data) noexcept override {
    ++writes;
    size_t taken = 0;
    for (const iovec& segment : data) {
      const size_t step = std::min(segment.iov_len, room - taken);
      output[stream.slot].append(static_cast<const char*>(segment.iov_base), step);
      taken += step;
    }
    room -= taken;
    return taken;
  }
  std::map<uint32_t, std::string> output;  // by slot
  size_t room = SIZE_MAX / 2;              // bytes the sockets still take
  int writes = 0;
};

class VsockGuest {
 public:
  static constexpr uint64_t kCid = 3;
  static constexpr uint64_t kRxBase = 0x10'0000;
  static constexpr uint64_t kRxStride = 0x2000;
  static constexpr uint64_t kTxBase = 0x60'0000;
  static constexpr uint64_t kTxStride = 0x4'0000;
  static constexpr uint64_t kMemory = 0xC0'0000;

  VsockGuest(const memory::GuestMemory& memory, virtio::Vsock& device)
      : memory_(&memory), device_(&device), active_(memory, device, {}, 256) {}

  DriverQueue& rx() { return active_.drivers[virtio::Vsock::kReceiveQueue]; }
  DriverQueue& tx() { return active_.drivers[virtio::Vsock::kTransmitQueue]; }
  DriverQueue& events() { return active_.drivers[virtio::Vsock::kEventQueue]; }
  std::vector<std::optional<virtio::Queue>>& queues() { return active_.queues; }

  // Posts receive buffers, each of `lengths` as descriptors, as far as the queue has room; kicks.
  void post(unsigned count, std::vector<uint32_t> lengths = {4096}) {
    for (unsigned i = 0; i < count && rx().free_descriptors() >= lengths.size(); ++i) {
      uint64_t at = kRxBase + kRxStride * (next_rx_++ % 512);
      std::vector<Buffer> buffers;
      for (const uint32_t length : lengths) {
        buffers.push_back({at, length, true});
        at += length;
      }
      posted_[rx().add(buffers)] = buffers;
    }
    device_->process(virtio::Vsock::kReceiveQueue);
  }
  // What the device delivered since the last call.
  std::vector<Packet> received() {
    std::vector<Packet> out;
    while (const auto used = rx().take_used()) {
      std::string bytes;
      for (const Buffer& buffer : posted_[static_cast<uint16_t>(used->head)]) {
        std::string piece(buffer.length, '\0');
        memory_->read({buffer.address}, std::as_writable_bytes(std::span(piece)));
        bytes += piece;
      }
      MVM_ASSERT(used->length >= sizeof(virtio::VsockHeader) && used->length <= bytes.size());
      Packet packet;
      std::memcpy(&packet.header, bytes.data(), sizeof packet.header);
      packet.payload = bytes.substr(sizeof packet.header, used->length - sizeof packet.header);
      MVM_ASSERT(packet.payload.size() == packet.header.length);
      out.push_back(std::move(packet));
    }
    return out;
  }

  virtio::VsockHeader header(uint32_t guest_port, uint32_t host_port, virtio::VsockOp op) const {
    virtio::VsockHeader out{};
    out.source_cid = kCid;
    out.destination_cid = virtio::kHostCid;
    out.source_port = guest_port;
    out.destination_port = host_port;
    out.type = virtio::kVsockStream;
    out.op = static_cast<uint16_t>(op);
    out.buffer = 256 << 10;
    return out;
  }
  // Puts a packet into the transmit queue, cut after each of `cuts` bytes (then the rest).
  void queue_packet(const virtio::VsockHeader& header, const std::string& payload = {},
                    const std::vector<uint32_t>& cuts = {}) {
    uint64_t at = kTxBase + kTxStride * (next_tx_++ % 20);
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes += payload;
    MVM_ASSERT(memory_->write({at}, as_bytes(bytes)));
    std::vector<Buffer> buffers;
    auto rest = static_cast<uint32_t>(bytes.size());
    for (uint32_t cut : cuts) {
      cut = std::min(cut, rest);
      if (cut == 0) continue;
      buffers.push_back({at, cut, false});
      at += cut;
      rest -= cut;
    }
    if (rest > 0) buffers.push_back({at, rest, false});
    tx().add(buffers);
  }
  void kick() {
    while (device_->process(virtio::Vsock::kTransmitQueue) == virtio::Progress::More) {
    }
    while (tx().take_used()) {
    }
  }
  void send(const virtio::VsockHeader& header, const std::string& payload = {},
            const std::vector<uint32_t>& cuts = {}) {
    queue_packet(header, payload, cuts);
    kick();
  }
  void send_data(uint32_t guest_port, uint32_t host_port, const std::string& payload,
                 const std::vector<uint32_t>& cuts = {}) {
    auto packet = header(guest_port, host_port, virtio::VsockOp::ReadWrite);
    packet.length = static_cast<uint32_t>(payload.size());
    send(packet, payload, cuts);
  }

 private:
  const memory::GuestMemory* memory_;
  virtio::Vsock* device_;
  ActiveDevice active_;
  unsigned next_rx_ = 0;
  unsigned next_tx_ = 0;
  std::map<uint16_t, std::vector<Buffer>> posted_;
};

}
