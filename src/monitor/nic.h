#pragma once
// The guest's network card: the device core, the TAP behind it, and the thread that moves frames
// between the two.
//
// The thread sleeps until the driver kicks or a frame waits at the TAP; while the guest has no
// buffers for frames, it does not look at the TAP. A turn moves a bounded number of frames each
// way.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

#include "mvm/proto/monitor.h"
#include "mvm/sys/fd.h"
#include "mvm/virtio/net.h"

#include "device_slot.h"
#include "disk_engine.h"

namespace mvm::monitor {

// Frames by readv(2) and writev(2), straight between the TAP and guest memory. Every call is made
// under the device's lock.
class TapPort : public virtio::FramePort {
 public:
  // `tap`: non-blocking, with virtio_net_hdr_v1 in front of frames (12 bytes).
  explicit TapPort(sys::Fd tap) noexcept : tap_(std::move(tap)) {}

  int fd() const noexcept { return tap_.get(); }
  // The TAP gave an error that waiting does not cure. Nothing moves any more.
  bool broken() const noexcept { return broken_; }
  void give_up() noexcept { broken_ = true; }

  void send(std::span<const iovec> frame) noexcept override;
  std::optional<size_t> receive(std::span<const iovec> into) noexcept override;
  // Takes effect by apply_offloads(), on the network thread: a vCPU thread, on which drivers
  // negotiate, may not change the TAP.
  void set_offloads(const virtio::ReceiveOffloads& offloads) noexcept override {
    wanted_ = offloads;
  }
  // Before anything else is done for a driver that has just started.
  void apply_offloads() noexcept;

 private:
  std::optional<size_t> read(std::span<const iovec> into) noexcept;

  sys::Fd tap_;
  std::optional<virtio::ReceiveOffloads> wanted_;  // and not applied yet
  bool broken_ = false;
};

class Nic {
 public:
  Nic(sys::Fd tap, const proto::MonitorNic& settings) noexcept;
  // Ends the thread, if it was started. Not while the guest runs.
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  virtio::Net& device() { return device_; }
  // `slot` is the device's, and outlives the thread.
  void attach(DeviceSlot& slot) { slot_ = &slot; }
  void start(const ThreadStart& start);

 private:
  void run();
  struct Kicked {
    bool receive = false;
    bool transmit = false;
  };
  Kicked wait();
  void serve(Kicked kicked);

  TapPort port_;
  virtio::Net device_;
  DeviceSlot* slot_ = nullptr;
  bool starved_ = true;  // the guest has no buffers, or no driver: its next kick ends that
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}
