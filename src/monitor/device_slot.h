#pragma once
// One virtio device on the machine's bus: its transport, the lock of both, its interrupt line, and
// the descriptors by which the guest kicks it without leaving the kernel (ioeventfd).

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "mvm/memory/guest_memory.h"
#include "mvm/sys/fd.h"
#include "mvm/virtio/mmio.h"

#include "kept_writes.h"

namespace mvm::monitor {

class DeviceSlot : public virtio::Signals {
 public:
  // Makes an edge on an interrupt line. From any thread, and with the device's lock held.
  using Interrupt = std::function<void(uint32_t gsi)>;

  // All must outlive the slot. `address` is where its window starts, `gsi` its interrupt line,
  // `page` what the window reads as, `kept_writes` where its InterruptACKs may be waiting.
  DeviceSlot(const memory::GuestMemory& memory, virtio::Device& device,
             memory::GuestAddress address, uint32_t gsi, Interrupt interrupt,
             std::span<std::byte> page = {}, KeptWrites* kept_writes = nullptr);

  memory::GuestAddress address() const { return address_; }
  uint32_t gsi() const { return gsi_; }
  // One a queue; readable when the queue was kicked.
  std::span<const sys::Fd> kick_fds() const { return kicks_; }
  bool contains(uint64_t address) const {
    return address >= address_.value && address - address_.value < virtio::mmio::kWindow;
  }

  // Register accesses, from any vCPU thread.
  void read(uint64_t offset, std::span<std::byte> data) noexcept;
  void write(uint64_t offset, ByteView data) noexcept;
  // After a kick, from the thread that serves the device. Clears the kick; kicks again when there
  // is more to do, so that other descriptors have their turn in between.
  void serve(uint16_t queue) noexcept;
  // The same for a thread that looks after the kick itself.
  virtio::Progress process(uint16_t queue) noexcept;
  // Has every write of the status made by way of `executor`, which runs what it is given on the
  // thread that serves the device, and waits for it. Before the guest runs.
  using Executor = std::function<void(const std::function<void()>&)>;
  void change_status_by(Executor executor) { executor_ = std::move(executor); }

  // Runs `body` on the device under its lock, and then passes on what it left to do.
  template <typename Body>
  decltype(auto) with_lock(Body&& body) {
    const std::lock_guard lock(mutex_);
    const Settle settle{transport_};
    return std::forward<Body>(body)();
  }
  // The same, if a driver runs the device; nothing otherwise.
  template <typename Body>
  auto while_running(Body&& body) -> std::optional<decltype(body())> {
    const std::lock_guard lock(mutex_);
    if (!transport_.running()) return std::nullopt;
    const Settle settle{transport_};
    return std::forward<Body>(body)();
  }
  // The fault that put the device out of use, once, for the log.
  std::optional<virtio::QueueFault> take_fault() noexcept;

  void raise_interrupt() noexcept override;
  void kick(uint16_t queue) noexcept override;
  void take_acknowledgements() noexcept override;

 private:
  struct Settle {
    virtio::MmioTransport& transport;
    ~Settle() { transport.settle(); }
  };
  void write_locked(uint64_t offset, ByteView data) noexcept;

  memory::GuestAddress address_;
  uint32_t gsi_;
  KeptWrites* kept_writes_;
  Interrupt interrupt_;
  std::vector<sys::Fd> kicks_;
  Executor executor_;
  std::mutex mutex_;
  virtio::MmioTransport transport_;
};

}
