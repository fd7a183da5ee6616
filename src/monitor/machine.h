#pragma once
// One machine: memory, vCPUs, devices and the threads that serve them.
//
//   loop thread      vsock, console, entropy, control; ends the machine
//   a thread a vCPU  KVM_RUN; register accesses of every device
//   a thread a disk  block requests, so that a slow disk holds up nothing else (disk.h)
//   the card's       frames between the guest and its TAP (nic.h)

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "mvm/jail/seccomp.h"
#include "mvm/kvm/kvm.h"
#include "mvm/kvm/serial.h"
#include "mvm/loop/loop.h"
#include "mvm/proto/monitor.h"
#include "mvm/virtio/console.h"

#include "balloon.h"
#include "chassis.h"
#include "console_client.h"
#include "console_log.h"
#include "device_slot.h"
#include "disk.h"
#include "entropy.h"
#include "host_streams.h"
#include "kept_writes.h"
#include "nic.h"

namespace mvm::monitor {

using MonitorFds = std::array<sys::Fd, static_cast<size_t>(proto::MonitorFd::Count)>;

class Machine {
 public:
  struct Handlers {
    std::function<void(HostStreams::Token, uint32_t port)> on_guest_connect;
    // On the loop's thread, once: the first vCPU enters the guest.
    std::function<void()> on_running;
    // On the loop's thread, once.
    std::function<void(proto::EndCause, const std::string& detail)> on_end;
    // On the loop's thread: the answer of MemoryBalloon::ask().
    std::function<void(const proto::MemoryUse&)> on_memory_use;
  };

  // Describes the devices, makes the vCPUs. `chassis` outlives it and is no other machine's. Throws
  // Error saying what the host or an image lacks.
  Machine(loop::Loop& loop, Chassis& chassis, const proto::MonitorConfig& config, MonitorFds fds,
          Handlers handlers);
  // Starts the threads, each of which confines itself first. The machine then ends with the
  // process, never before.
  void start();

  HostStreams& streams() { return streams_; }
  MemoryBalloon& balloon() { return balloon_; }
  ConsoleClient& console() { return console_client_; }
  // Exits by reason, ours ("user.…") and KVM's own.
  kvm::Counters counters() const;
  // What the guest has printed up to now is in the log.
  void flush_console();

 private:
  struct VcpuThread {
    explicit VcpuThread(kvm::Vcpu made) : vcpu(std::move(made)) {}
    kvm::Vcpu vcpu;
    int stats_fd = -1;
    std::array<std::atomic<uint64_t>, kvm::kExitReasons> exits{};
  };
  class ConsoleSink : public virtio::ConsoleSink {
   public:
    ConsoleSink(ConsoleLog& log, ConsoleClient& client) : log_(log), client_(client) {}
    void write(ByteView data) noexcept override {
      log_.write(data);
      client_.write(data);
    }

   private:
    ConsoleLog& log_;
    ConsoleClient& client_;
  };
  DeviceSlot& add_device(virtio::Device& device);
  void add_disk(sys::Fd file, const virtio::BlockSettings& settings);
  void serve_on_loop(DeviceSlot& slot);
  void make_vcpus(const proto::MonitorConfig& config, const kvm::Vcpu::Entry& entry);
  void run_vcpu(VcpuThread& thread) noexcept;
  ThreadStart serving(const char* name, std::vector<jail::Rule> (*rules)());
  void start_disk(Disk& disk);
  void write_mmio(uint64_t address, ByteView data) noexcept;
  bool handle_exit(const kvm::Exit& exit);
  void port_in(uint16_t port, std::span<std::byte> data, uint32_t size) noexcept;
  bool port_out(uint16_t port, ByteView data, uint32_t size);
  DeviceSlot* slot_at(uint64_t address) noexcept;
  // From any thread; the first caller's cause is the machine's.
  void end(proto::EndCause cause, std::string detail);

  loop::Loop* loop_;
  Handlers handlers_;
  Chassis* chassis_;
  int vm_stats_fd_;
  ConsoleLog log_;
  HostEntropy entropy_;
  ConsoleSink console_sink_;
  virtio::Console console_;
  ConsoleClient console_client_;
  virtio::Rng rng_;
  HostStreams streams_;
  virtio::Vsock vsock_;
  MemoryBalloon balloon_;
  std::vector<std::unique_ptr<Disk>> disks_;
  std::optional<Nic> nic_;
  std::vector<std::unique_ptr<DeviceSlot>> slots_;
  DeviceSlot* console_slot_ = nullptr;
  std::vector<loop::Watch> watches_;
  std::mutex serial_mutex_;
  kvm::Serial serial_;
  std::vector<std::unique_ptr<VcpuThread>> vcpus_;
  KeptWrites kept_writes_;  // in the first vCPU's mapping
  std::vector<std::thread> threads_;
  std::atomic<bool> panicked_{false};
  std::atomic<bool> ended_{false};
};

}
