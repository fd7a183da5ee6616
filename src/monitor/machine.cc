// Building a machine reads top to bottom in the constructor; running it is three kinds of thread.
#include "machine.h"

#include <algorithm>

#include <sched.h>
#include <sys/epoll.h>

#include "mvm/base/error.h"
#include "mvm/jail/seccomp.h"
#include "mvm/kvm/acpi.h"
#include "mvm/kvm/boot.h"
#include "mvm/kvm/cpuid.h"
#include "mvm/kvm/layout.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "syscalls.h"

namespace mvm::monitor {

namespace layout = kvm::layout;
using memory::GuestAddress;
using proto::EndCause;
using proto::MonitorFd;

static sys::Fd take(MonitorFds& fds, MonitorFd which) {
  return std::move(fds.at(static_cast<size_t>(which)));
}

Machine::Machine(loop::Loop& loop, Chassis& chassis, const proto::MonitorConfig& config,
                 MonitorFds fds, Handlers handlers)
    : loop_(&loop),
      handlers_(std::move(handlers)),
      chassis_(&chassis),
      vm_stats_fd_(chassis.vm().stats_fd()),
      log_(take(fds, MonitorFd::ConsoleLog)),
      console_sink_(log_, console_client_),
      console_(console_sink_),
      console_client_(loop, console_),
      rng_(entropy_),
      streams_(loop, [this](HostStreams::Token stream,
                            uint32_t port) { handlers_.on_guest_connect(stream, port); }),
      vsock_({}, streams_),
      balloon_(loop, chassis.memory(),
               [this](const proto::MemoryUse& use) { handlers_.on_memory_use(use); }),
      serial_([this](ByteView output) { console_sink_.write(output); },
              [this] { chassis_->vm().pulse(layout::kSerialGsi); }),
      kept_writes_(
          [](uint64_t address) {
            return address % virtio::mmio::kWindow == virtio::mmio::kInterruptAck;
          },
          [this](uint64_t address, ByteView data) { write_mmio(address, data); }) {
  // The order is the guest's: the first disk is /dev/vda.
  const virtio::BlockLimits limits{.bytes_per_second = config.disk_bandwidth,
                                   .operations_per_second = config.disk_iops};
  add_disk(take(fds, MonitorFd::Root),
           {.access = virtio::Access::ReadOnly, .serial = "mvm-root", .limits = limits});
  add_disk(take(fds, MonitorFd::Overlay),
           {.access = virtio::Access::ReadWrite, .serial = "mvm-overlay", .limits = limits});
  if (config.kept_disk)
    add_disk(take(fds, MonitorFd::KeptDisk),
             {.access = virtio::Access::ReadWrite, .serial = "mvm-kept", .limits = limits});
  DeviceSlot& vsock_slot = add_device(vsock_);
  streams_.attach(vsock_slot, vsock_);
  for (uint16_t queue = 0; queue < vsock_slot.kick_fds().size(); ++queue)
    watches_.push_back(loop.watch(vsock_slot.kick_fds()[queue].get(), EPOLLIN,
                                  [this, &vsock_slot, queue](uint32_t) {
                                    vsock_slot.serve(queue);
                                    streams_.handle_events();
                                  }));
  serve_on_loop(add_device(rng_));
  balloon_.attach(add_device(balloon_.device()));
  console_slot_ = &add_device(console_);
  console_client_.attach(*console_slot_);
  if (config.nic) {
    nic_.emplace(take(fds, MonitorFd::Tap), *config.nic);
    nic_->attach(add_device(nic_->device()));
  }

  std::vector<kvm::MmioDevice> described;
  for (const auto& slot : slots_) described.push_back({slot->address().value, slot->gsi()});
  const memory::GuestMemory& memory = chassis.memory();
  const uint64_t rsdp = kvm::write_acpi_tables(
      memory, {.cpus = config.cpus, .devices = described, .serial = config.serial});
  const auto [kernel, initrd] = chassis.loaded();
  make_vcpus(config, kvm::write_boot_data(memory, kernel, initrd, config.cmdline, rsdp));
}

// Registers whose writes can wait for the next exit (virtio/mmio.h): those that only prepare what a
// write of Status is about to use, and InterruptACK. Not what changes how another register reads,
// and not QueueNotify, which is an event of its own.
static constexpr std::array<std::pair<uint64_t, uint64_t>, 4> kQuietRegisters{{
    {virtio::mmio::kDriverFeatures, virtio::mmio::kDriverFeaturesSelect + 4},
    {virtio::mmio::kQueueSize, virtio::mmio::kQueueSize + 4},
    {virtio::mmio::kInterruptAck, virtio::mmio::kInterruptAck + 4},
    {virtio::mmio::kQueueDescriptorLow, virtio::mmio::kQueueDeviceHigh + 4},
}};

DeviceSlot& Machine::add_device(virtio::Device& device) {
  const auto number = static_cast<uint32_t>(slots_.size());
  const GuestAddress address{layout::kMmioStart + number * virtio::mmio::kWindow};
  // Lines below 5 and the one that ACPI traditionally uses stay free.
  uint32_t gsi = layout::kFirstGsi + number;
  if (gsi >= layout::kAcpiGsi) ++gsi;
  if (gsi >= layout::kIoApicPins)
    throw Error(Kind::Exhausted, "the machine has no interrupt line left for another device");
  DeviceSlot& slot = *slots_.emplace_back(std::make_unique<DeviceSlot>(
      chassis_->memory(), device, address, gsi,
      [&vm = chassis_->vm()](uint32_t line) { vm.pulse(line); },
      chassis_->register_pages().subspan(number * virtio::mmio::kWindow, virtio::mmio::kWindow),
      &kept_writes_));
  kvm::Vm& vm = chassis_->vm();
  for (uint32_t queue = 0; queue < slot.kick_fds().size(); ++queue)
    vm.add_ioeventfd(slot.kick_fds()[queue].get(),
                     GuestAddress{address.value + virtio::mmio::kQueueNotify}, queue);
  // Where KVM cannot, these writes are exits like the others.
  for (const auto& [first, end] : kQuietRegisters)
    vm.coalesce_writes(GuestAddress{address.value + first}, static_cast<uint32_t>(end - first));
  return slot;
}

void Machine::add_disk(sys::Fd file, const virtio::BlockSettings& settings) {
  Disk& disk = *disks_.emplace_back(std::make_unique<Disk>(std::move(file), settings));
  disk.attach(add_device(disk.device()));
}

void Machine::serve_on_loop(DeviceSlot& slot) {
  for (uint16_t queue = 0; queue < slot.kick_fds().size(); ++queue)
    watches_.push_back(loop_->watch(slot.kick_fds()[queue].get(), EPOLLIN,
                                    [&slot, queue](uint32_t) { slot.serve(queue); }));
}

void Machine::make_vcpus(const proto::MonitorConfig& config, const kvm::Vcpu::Entry& entry) {
  const kvm::Kvm& kvm = chassis_->kvm();
  const auto supported = kvm.supported_cpuid();
  const auto msrs = kvm::boot_msrs();
  for (uint32_t index = 0; index < config.cpus; ++index) {
    auto& thread =
        *vcpus_.emplace_back(std::make_unique<VcpuThread>(chassis_->vm().create_vcpu(index, kvm)));
    // CPUID first: since Linux 6.13 it decides which MSRs exist.
    thread.vcpu.set_cpuid(
        kvm::guest_cpuid(supported, {.cpu = index, .cpus = config.cpus}, thread.vcpu.tsc_khz()));
    thread.vcpu.set_msrs(msrs);
    thread.vcpu.set_lapic_pins();
    // The others wait for the first to send them their start-up interrupt.
    if (index == 0) thread.vcpu.set_entry(entry);
    thread.stats_fd = thread.vcpu.stats_fd();
  }
  kept_writes_.attach(vcpus_.front()->vcpu.coalesced_writes());
}

// ---- running ------------------------------------------------------------------------------------

void Machine::start() {
  for (const auto& disk : disks_) start_disk(*disk);
  if (nic_) nic_->start(serving("mvm-net", net_thread_syscalls));
  for (const auto& vcpu : vcpus_)
    threads_.emplace_back([this, each = vcpu.get()] { run_vcpu(*each); });
}

// A thread that serves rings does not push aside whoever has the processor when it is woken: that
// may be the guest, which is still filling them (sched(7)). Where one is free it makes no
// difference. What an operator has chosen for the process stays.
static void wait_for_turn() {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  const sched_param no_priority{};
  sys::check(::sched_setscheduler(0, SCHED_BATCH, &no_priority), "setting a thread's scheduling");
}

ThreadStart Machine::serving(const char* name, std::vector<jail::Rule> (*rules)()) {
  return {.confine =
              [name, rules] {
                wait_for_turn();
                jail::confine_thread(name, rules());
              },
          .on_failure = [this](const std::string& why) { end(EndCause::Failed, why); }};
}

void Machine::start_disk(Disk& disk) {
  disk.start(serving("mvm-disk", disk_thread_syscalls),
             serving("mvm-disk-worker", disk_worker_syscalls));
}

void Machine::run_vcpu(VcpuThread& thread) noexcept {
  try {
    jail::confine_thread("mvm-vcpu", vcpu_thread_syscalls());
    if (thread.vcpu.index() == 0) loop_->post([this] { handlers_.on_running(); });
    while (true) {
      const kvm::Exit exit = thread.vcpu.run();
      thread.exits.at(static_cast<size_t>(exit.reason)).fetch_add(1, std::memory_order_relaxed);
      kept_writes_.apply_all();
      if (!handle_exit(exit)) return;
    }
  } catch (const Error& error) {
    end(EndCause::Failed, error.message());
  }
}

DeviceSlot* Machine::slot_at(uint64_t address) noexcept {
  const uint64_t number = (address - layout::kMmioStart) / virtio::mmio::kWindow;
  return address >= layout::kMmioStart && number < slots_.size() ? slots_[number].get() : nullptr;
}

void Machine::write_mmio(uint64_t address, ByteView data) noexcept {
  if (DeviceSlot* slot = slot_at(address)) slot->write(address - slot->address().value, data);
}

// False ends the vCPU's thread.
bool Machine::handle_exit(const kvm::Exit& exit) {
  switch (exit.reason) {
    case kvm::ExitReason::MmioRead: {
      DeviceSlot* slot = slot_at(exit.address);
      // Nothing is there: reads as a bus without a device does.
      std::fill(exit.data.begin(), exit.data.end(), std::byte{0xff});
      if (slot != nullptr) slot->read(exit.address - slot->address().value, exit.data);
      return true;
    }
    case kvm::ExitReason::MmioWrite:
      write_mmio(exit.address, exit.data);
      return true;
    case kvm::ExitReason::PortIn:
      port_in(static_cast<uint16_t>(exit.address), exit.data, exit.size);
      return true;
    case kvm::ExitReason::PortOut:
      return port_out(static_cast<uint16_t>(exit.address), exit.data, exit.size);
    case kvm::ExitReason::Halt:
    case kvm::ExitReason::Interrupted:
      return true;
    case kvm::ExitReason::Shutdown:
      // A triple fault: a kernel that reboots by it, or one that died without a word.
      end(EndCause::Rebooted, "triple fault");
      return false;
    case kvm::ExitReason::InternalError:
      end(EndCause::Failed, "KVM could not execute an instruction of the guest (suberror " +
                                std::to_string(exit.detail) + "): its emulation is incomplete");
      return false;
    case kvm::ExitReason::FailEntry:
      end(EndCause::Failed,
          "the processor refused to enter the guest (reason " + std::to_string(exit.detail) + ")");
      return false;
    case kvm::ExitReason::SystemEvent:
    case kvm::ExitReason::Other:
      end(EndCause::Failed,
          std::string("KVM stopped the guest for a reason that mvm does not know (") +
              kvm::exit_reason_name(exit.reason) + " " + std::to_string(exit.detail) + ")");
      return false;
  }
  return false;
}

void Machine::port_in(uint16_t port, std::span<std::byte> data, uint32_t size) noexcept {
  constexpr uint8_t kPvpanicEvents = 1;  // what it can be told of
  constexpr std::byte kInputBufferFull{2};
  std::fill(data.begin(), data.end(), std::byte{0xff});
  if (size != 1) return;
  for (std::byte& byte : data) {
    if (port == layout::kPvpanicPort) byte = std::byte{kPvpanicEvents};
    // A kernel about to reset by way of the keyboard controller waits for this bit of its status to
    // be clear.
    if (port == layout::kI8042CommandPort) byte &= ~kInputBufferFull;
    if (port < layout::kSerialPort || port >= layout::kSerialPort + 8) continue;
    const std::lock_guard lock(serial_mutex_);
    byte = static_cast<std::byte>(serial_.read(static_cast<uint16_t>(port - layout::kSerialPort)));
  }
}

bool Machine::port_out(uint16_t port, ByteView data, uint32_t size) {
  if (size != 1) return true;
  for (const std::byte byte : data) {
    const auto value = std::to_integer<uint8_t>(byte);
    if (port >= layout::kSerialPort && port < layout::kSerialPort + 8) {
      const std::lock_guard lock(serial_mutex_);
      serial_.write(static_cast<uint16_t>(port - layout::kSerialPort), value);
    } else if (port == layout::kPvpanicPort) {
      // The kernel goes on to print, sync and reboot; that ends the machine.
      if ((value & 1) != 0) panicked_ = true;
    } else if (const auto event = kvm::power_event(port, value)) {
      end(*event == kvm::PowerEvent::PowerOff ? EndCause::PoweredOff : EndCause::Rebooted, "");
      return false;
    }
  }
  return true;
}

void Machine::end(EndCause cause, std::string detail) {
  if (ended_.exchange(true)) return;
  loop_->post([this, cause, text = std::move(detail)] {
    flush_console();
    const std::string panic = log_.panic_message();
    // A kernel that panics ends by rebooting. pvpanic says so where its driver is there; before,
    // its own words do.
    if (cause == EndCause::Rebooted && (panicked_ || !panic.empty()))
      return handlers_.on_end(EndCause::Panicked, panic);
    handlers_.on_end(cause, text);
  });
}

void Machine::flush_console() {
  // What the guest has queued for the console and not kicked for yet, or kicked for this moment.
  console_slot_->serve(virtio::Console::kTransmitQueue);
  log_.flush();
  console_client_.flush();
}

kvm::Counters Machine::counters() const {
  kvm::Counters all;
  for (size_t reason = 0; reason < kvm::kExitReasons; ++reason) {
    uint64_t count = 0;
    for (const auto& thread : vcpus_)
      count += thread->exits.at(reason).load(std::memory_order_relaxed);
    if (count > 0)
      all.emplace_back(
          std::string("user.") + kvm::exit_reason_name(static_cast<kvm::ExitReason>(reason)),
          count);
  }
  const auto add = [&all](const std::string& prefix, int fd) {
    for (const auto& [name, value] : kvm::read_stats(fd)) {
      if (value == 0 || name.find("exits") == std::string::npos) continue;
      const auto same = std::find_if(
          all.begin(), all.end(), [&](const auto& entry) { return entry.first == prefix + name; });
      if (same == all.end()) {
        all.emplace_back(prefix + name, value);
      } else {
        same->second += value;
      }
    }
  };
  for (const auto& thread : vcpus_) add("kvm.", thread->stats_fd);
  const auto on_ring = std::ranges::count_if(
      disks_, [](const auto& disk) { return disk->engine_kind() == EngineKind::IoUring; });
  all.emplace_back("disks.io_uring", static_cast<uint64_t>(on_ring));
  return all;
}

}
