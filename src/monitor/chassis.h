#pragma once
// What every machine of a size is built on, whosever it will be: the VM, and its memory with kernel
// and initramfs. It may be made long before the machine (docs/decisions/0029-spares.md).

#include <array>
#include <future>
#include <utility>

#include "mvm/kvm/kvm.h"
#include "mvm/kvm/loader.h"
#include "mvm/memory/guest_memory.h"
#include "mvm/proto/machine_base.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/mapping.h"

namespace mvm::monitor {

using BaseFds = std::array<sys::Fd, static_cast<size_t>(proto::BaseFd::Count)>;

class Chassis {
 public:
  // Throws Error saying what the host lacks.
  Chassis(const proto::MachineBase& base, BaseFds fds);
  Chassis(const Chassis&) = delete;
  Chassis& operator=(const Chassis&) = delete;

  const kvm::Kvm& kvm() const { return kvm_; }
  const memory::GuestMemory& memory() const { return memory_; }
  kvm::Vm& vm() { return vm_; }
  // What the guest sees at layout::kMmioStart, where KVM can: a window for each interrupt line.
  std::span<std::byte> register_pages() { return register_pages_.bytes(); }
  // Once: waits until they are in memory. Throws Error saying what is wrong with which file.
  std::pair<kvm::LoadedKernel, kvm::LoadedInitrd> loaded() { return loading_.get(); }

 private:
  kvm::Kvm kvm_;
  memory::GuestMemory memory_;
  // Reading the kernel, and what KVM does to set up a VM, take milliseconds each and have nothing
  // to do with one another: side by side.
  std::future<std::pair<kvm::LoadedKernel, kvm::LoadedInitrd>> loading_;
  sys::Mapping register_pages_;
  kvm::Vm vm_;
};

}
