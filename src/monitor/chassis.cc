#include "chassis.h"

#include <sys/mman.h>

#include "mvm/kvm/layout.h"
#include "mvm/virtio/mmio.h"

namespace mvm::monitor {

namespace layout = kvm::layout;

static sys::Fd take(BaseFds& fds, proto::BaseFd which) {
  return std::move(fds.at(static_cast<size_t>(which)));
}

Chassis::Chassis(const proto::MachineBase& base, BaseFds fds)
    : kvm_(take(fds, proto::BaseFd::First)),
      memory_(memory::GuestMemory::create(
          base.memory, base.huge_pages ? memory::Backing::HugePages : memory::Backing::Anonymous)),
      loading_(std::async(std::launch::async,
                          [this, touch = base.spare, kernel = take(fds, proto::BaseFd::Kernel),
                           initramfs = take(fds, proto::BaseFd::Initramfs)] {
                            const auto loaded = kvm::load_kernel(memory_, kernel.get());
                            const auto initrd =
                                kvm::load_initrd(memory_, initramfs.get(), loaded.end);
                            if (touch) memory_.touch_what_boots_do();
                            return std::pair(loaded, initrd);
                          })),
      register_pages_(sys::Mapping::map(-1, 0, layout::kIoApicPins * virtio::mmio::kWindow,
                                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)),
      vm_(kvm_.create_vm()) {
  vm_.create_irqchip();
  vm_.set_memory(memory_);
  // Where KVM cannot, the guest's reads of registers are exits. Right behind the memory: KVM waits
  // for its readers after each change of the slots, and need not wait twice.
  vm_.show_read_only(register_pages_.bytes(), memory::GuestAddress{layout::kMmioStart});
}

}
