// A guest that sends frames cut and described in any way, and gives receive buffers of any shape.
// What leaves is judged again, as it left: the gate's own words must pass the gate. What arrives
// must fit the buffers that the used ring says it took.

#include <cstdlib>
#include <vector>

#include "mvm/virtio/net.h"

#include "input.h"
#include "support/active_device.h"
#include "support/frames.h"

using namespace mvm;
using namespace mvm::virtio;

namespace {

constexpr uint64_t kData = 0x40000;
constexpr uint32_t kSize = 1 << 20;
constexpr uint16_t kMtu = 1500;

const memory::GuestMemory& guest_memory() {
  static const auto memory = memory::GuestMemory::create(kSize);
  return memory;
}

class CheckingPort : public FramePort {
 public:
  explicit CheckingPort(Features negotiated) : negotiated_(negotiated) {}
  void send(std::span<const iovec> frame) noexcept override {
    Bytes all;
    for (const iovec& segment : frame)
      Writer(all).bytes({static_cast<const std::byte*>(segment.iov_base), segment.iov_len});
    MVM_ASSERT(all.size() >= sizeof(NetHeader) && all.size() <= sizeof(NetHeader) + kMaxFrame);
    NetHeader header;
    std::memcpy(&header, all.data(), sizeof header);
    const ByteView rest = ByteView(all).subspan(sizeof header);
    NetHeader again = header;
    MVM_ASSERT(!judge_frame(test::kOwner, negotiated_, again,
                            rest.first(std::min(rest.size(), kGateBytes)), rest.size()));
    MVM_ASSERT(std::memcmp(&again, &header, sizeof header) == 0);
  }
  std::optional<size_t> receive(std::span<const iovec> into) noexcept override {
    if (!waiting) return std::nullopt;
    size_t left = *waiting;
    for (const iovec& segment : into) {
      const size_t step = std::min(left, segment.iov_len);
      std::memset(segment.iov_base, 0x5a, step);
      left -= step;
    }
    MVM_ASSERT(left == 0);  // the device promised room for any frame
    return std::exchange(waiting, std::nullopt);
  }
  void set_offloads(const ReceiveOffloads& wanted) noexcept override {
    longest = sizeof(NetHeader) + (wanted.tso4 || wanted.tso6 ? kMaxFrame : uint64_t{14 + kMtu});
  }
  std::optional<size_t> waiting;
  size_t longest = 0;

 private:
  Features negotiated_;
};

test::Frame some_frame(fuzz::Input& in) {
  test::Frame frame;
  switch (in.below(5)) {
    case 0:
      frame = test::Frame::tcp4(std::string(in.below(3000), 'x'));
      break;
    case 1:
      frame = test::Frame::tcp6(std::string(in.below(3000), 'x'));
      break;
    case 2:
      frame = test::Frame::udp4("question");
      break;
    case 3:
      frame = test::Frame::arp();
      break;
    default:
      frame = test::Frame::neighbour_solicitation("fe80::1");
  }
  while (in.rarely(3)) frame.with(in.below(static_cast<uint32_t>(frame.bytes.size())), in.u8());
  if (in.rarely(8)) frame.resized(in.u16());
  return frame;
}

NetHeader some_header(fuzz::Input& in) {
  NetHeader header;
  if (in.rarely(2)) header = {.flags = kNeedsChecksum, .checksum_start = 34, .checksum_offset = 16};
  if (in.rarely(3)) {
    header.gso_type = kGsoTcp4;
    header.gso_size = in.u16();
  }
  if (in.rarely(6)) header = in.take<NetHeader>();
  return header;
}

void transmit(fuzz::Input& in, Net& device, test::DriverQueue& tx) {
  if (tx.free_descriptors() < 4) return;
  Bytes all;
  Writer out(all);
  out.put(some_header(in));
  out.bytes(some_frame(in).bytes);
  if (!guest_memory().write({kData}, all)) return;
  std::vector<test::Buffer> buffers;
  auto left = static_cast<uint32_t>(all.size());
  for (int cut = 0; cut < 3 && left > 0; ++cut) {
    const uint32_t length = cut == 2 ? left : std::min(left, in.below(100));
    buffers.push_back({kData + all.size() - left, length, false});
    left -= length;
  }
  tx.add(buffers);
  device.process(Net::kTransmitQueue);
  while (tx.take_used()) {
  }
}

void receive(fuzz::Input& in, Net& device, CheckingPort& port, test::DriverQueue& rx) {
  for (uint32_t n = in.below(8); n > 0 && rx.free_descriptors() >= 3; --n) {
    std::vector<test::Buffer> buffers;
    for (uint32_t segments = 1 + in.below(3); segments > 0; --segments)
      buffers.push_back(
          {kData + in.u16(), in.rarely(4) ? in.below(20) : 1000U + in.u16(), !in.rarely(30)});
    rx.add(buffers);
  }
  if (!in.rarely(4)) port.waiting = std::min<size_t>(port.longest, sizeof(NetHeader) + in.u16());
  const size_t wanted = port.waiting.value_or(0);
  device.receive();
  size_t got = 0;
  while (const auto used = rx.take_used()) got += used->length;
  MVM_ASSERT(got == (port.waiting ? 0 : wanted));
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  Features features;
  for (const unsigned bit : {0U, 1U, 7U, 8U, 9U, 11U, 12U, 13U, 15U})
    if (!in.rarely(4)) features = features.with(bit);
  CheckingPort port(Features(features.bits() | kRingFeatures.bits()));
  Net device(port, test::kOwner, kMtu, 0);
  test::ActiveDevice active(guest_memory(), device, features, 64);
  for (int steps = 0; steps < 60 && !in.empty(); ++steps) {
    if (in.rarely(2))
      receive(in, device, port, active.drivers[Net::kReceiveQueue]);
    else
      transmit(in, device, active.drivers[Net::kTransmitQueue]);
    if (device.take_effects().fault) return 0;
  }
  return 0;
}
