#pragma once
// Typed handles for KVM (Linux Documentation/virt/kvm/api.rst): one function is one ioctl, or a few
// that belong together. No policy here, and no linux/kvm.h for those who use it.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mvm/kvm/coalesced.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/mapping.h"

namespace mvm::kvm {

class Vm;
class Vcpu;

// CPUID entries as KVM takes them (struct kvm_cpuid_entry2 without its padding).
struct CpuidEntry {
  uint32_t function = 0;
  uint32_t index = 0;
  uint32_t flags = 0;
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  bool operator==(const CpuidEntry&) const = default;
};
inline constexpr uint32_t kCpuidSignificantIndex = 1;

using Counters = std::vector<std::pair<std::string, uint64_t>>;

// /dev/kvm, open. Throws Error{Unsupported} when it lacks what mvm needs, naming it.
class Kvm {
 public:
  explicit Kvm(sys::Fd device);
  int fd() const { return device_.get(); }
  size_t run_size() const { return run_size_; }
  std::vector<CpuidEntry> supported_cpuid() const;
  Vm create_vm() const;

 private:
  sys::Fd device_;
  size_t run_size_ = 0;
};

class Vm {
 public:
  // In-kernel interrupt controllers. Before any vCPU.
  void create_irqchip();
  // Makes the regions of `memory`, which must outlive the VM, the guest's physical memory.
  void set_memory(const memory::GuestMemory& memory);
  // Shows `bytes` to the guest at `address`, page by page: reads are no exits, writes are as if
  // nothing were there. The bytes outlive the VM. False: this KVM cannot.
  bool show_read_only(std::span<const std::byte> bytes, memory::GuestAddress address);
  // An edge on interrupt line `gsi`, from any thread. By a call and not by an irqfd: for a line of
  // the I/O APIC, KVM has a kernel thread do what is written to that.
  void pulse(uint32_t gsi) const noexcept;
  // A 32-bit write of `value` to `address` is a signal on `event_fd`, without leaving the kernel.
  void add_ioeventfd(int event_fd, memory::GuestAddress address, uint32_t value);
  // Writes to these `size` bytes go to the ring that vCPUs show (coalesced.h). False: this KVM
  // cannot.
  bool coalesce_writes(memory::GuestAddress address, uint32_t size);
  Vcpu create_vcpu(uint32_t index, const Kvm& kvm);
  // KVM's own counters of the VM, empty where the kernel has none to give.
  int stats_fd() const;
  int fd() const { return vm_.get(); }

 private:
  friend class Kvm;
  explicit Vm(sys::Fd vm) : vm_(std::move(vm)) {}
  sys::Fd vm_;
  uint32_t memory_slots_ = 0;
};

enum class ExitReason : uint8_t {
  PortIn,
  PortOut,
  MmioRead,
  MmioWrite,
  Halt,
  Shutdown,  // a triple fault
  SystemEvent,
  Interrupted,    // a signal, or immediate_exit
  InternalError,  // KVM cannot go on: `detail` is its suberror
  FailEntry,      // `detail` is the hardware's reason
  Other,          // `detail` is KVM's number
};
inline constexpr size_t kExitReasons = static_cast<size_t>(ExitReason::Other) + 1;
const char* exit_reason_name(ExitReason reason) noexcept;

struct Exit {
  ExitReason reason = ExitReason::Other;
  uint64_t address = 0;       // a port, or a guest physical address
  std::span<std::byte> data;  // of an access: to be taken or to be filled before the next run()
  uint32_t size = 0;          // bytes of one item; a string instruction's data holds several
  uint64_t detail = 0;
};

class Vcpu {
 public:
  Vcpu(Vcpu&&) noexcept = default;
  Vcpu& operator=(Vcpu&&) noexcept = default;

  uint32_t index() const { return index_; }
  void set_cpuid(std::span<const CpuidEntry> entries);
  // Throws Error{Unsupported} naming the first MSR that KVM does not take.
  void set_msrs(std::span<const std::pair<uint32_t, uint64_t>> msrs);
  // How fast its time stamp counter runs; 0 when this KVM cannot tell.
  uint32_t tsc_khz() const;
  // Interrupt pins of the local APIC as a BIOS leaves them: LINT0 ExtINT, LINT1 NMI.
  void set_lapic_pins();

  // Where and how the first instruction runs.
  struct Entry {
    uint64_t rip = 0;
    uint64_t rbx = 0;
    uint64_t rsi = 0;
    bool long_mode = false;   // else 32-bit protected mode without paging
    uint64_t page_table = 0;  // with long_mode
    uint64_t gdt = 0;
  };
  void set_entry(const Entry& entry);

  // Runs the guest until it needs us. Throws SystemError when KVM_RUN fails for another reason than
  // a signal.
  Exit run();
  // Makes a run() return Interrupted: the one that a signal interrupts, else the next, once. From
  // any thread.
  void request_exit() noexcept;
  // The VM's ring of kept writes, as long as this vCPU lives.
  CoalescedWrites coalesced_writes() const;
  int stats_fd() const;
  uint64_t rip() const;

 private:
  friend class Vm;
  Vcpu(sys::Fd fd, sys::Mapping run, uint32_t index)
      : fd_(std::move(fd)), run_(std::move(run)), index_(index) {}
  sys::Fd fd_;
  sys::Mapping run_;
  uint32_t index_;
};

// Reads the counters behind a descriptor of KVM_GET_STATS_FD; -1 gives none.
Counters read_stats(int stats_fd);

}
