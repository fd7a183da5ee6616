// KVM can be there and still not be of use: without hardware virtualisation some hosts offer an
// emulation that knows only part of the instruction set. So a guest of a few instructions runs some
// that every x86_64 distribution kernel contains, in long mode: cmpxchg16b (the slab allocator) and
// xsave/xrstor of the state components that CPUID offers (every context switch). An emulation that
// does not know them ends the guest with an internal error.
#include "mvm/kvm/probe.h"

#include <array>
#include <cerrno>

#include <fcntl.h>

#include "mvm/kvm/boot.h"
#include "mvm/kvm/cpuid.h"
#include "mvm/kvm/kvm.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::kvm {

static constexpr uint64_t kCode = memory::kPageSize * 256;  // 1 MiB
static constexpr uint16_t kDonePort = 0x80;

static constexpr auto kProgram = std::to_array<uint8_t>({
    0x48, 0x8d, 0x35, 0xf9, 0x0f, 0x00, 0x00,        // lea rsi, [rip + 0xff9]: the page after this
                                                     // one
    0x31, 0xc0, 0x31, 0xd2, 0x31, 0xdb, 0x31, 0xc9,  // xor eax, edx, ebx, ecx
    0xf0, 0x48, 0x0f, 0xc7, 0x0e,                    // lock cmpxchg16b [rsi]
    0x0f, 0x20, 0xe0,                                // mov rax, cr4
    0x48, 0x0d, 0x00, 0x06, 0x04, 0x00,              // or rax, OSFXSR | OSXMMEXCPT | OSXSAVE
    0x0f, 0x22, 0xe0,                                // mov cr4, rax
    0x31, 0xc9, 0x31, 0xd2,                          // xor ecx, ecx; xor edx, edx
    0xb8, 0x03, 0x00, 0x00, 0x00,                    // mov eax, x87 | SSE
    0x0f, 0x01, 0xd1,                                // xsetbv
    0x48, 0x0f, 0xae, 0x26,                          // xsave64 [rsi]
    0x48, 0x0f, 0xae, 0x2e,                          // xrstor64 [rsi]
    0xe6, kDonePort,                                 // out done, al
    0xf4,                                            // hlt
});

static bool runs_stock_instructions(const Kvm& kvm) {
  const auto memory = memory::GuestMemory::create(4 << 20);
  Vm vm = kvm.create_vm();
  vm.create_irqchip();
  vm.set_memory(memory);
  memory.write(memory::GuestAddress{kCode}, std::as_bytes(std::span(kProgram)));
  Vcpu vcpu = vm.create_vcpu(0, kvm);
  vcpu.set_cpuid(guest_cpuid(kvm.supported_cpuid(), {}));
  LoadedKernel code;
  code.protocol = BootProtocol::Linux64;
  code.entry = kCode;
  vcpu.set_entry(write_boot_data(memory, code, {}, "", 0));
  for (int exits = 0; exits < 16; ++exits) {
    const Exit exit = vcpu.run();
    if (exit.reason == ExitReason::PortOut && exit.address == kDonePort) return true;
    if (exit.reason != ExitReason::Interrupted) return false;
  }
  return false;
}

HostSupport probe(const std::string& device) {
  sys::Fd fd;
  try {
    fd = sys::open_file(device, O_RDWR);
  } catch (const SystemError& error) {
    if (error.errno_value() == EACCES || error.errno_value() == EPERM)
      return {
          Support::NoPermission, device + " is there, but you may not open it",
          "join the group that owns it (usually: sudo usermod -aG kvm $USER, then log in again)"};
    return {
        Support::NoDevice, "there is no " + device,
        "switch virtualisation on in the firmware, or nested virtualisation for this VM, and load "
        "the module "
        "(sudo modprobe kvm_intel or kvm_amd); without either, try mvm in the lab: tests/lab/lab"};
  }
  try {
    const Kvm kvm(std::move(fd));
    if (runs_stock_instructions(kvm)) return {Support::Usable, device + " runs guests", ""};
    return {Support::CannotRunStockKernel,
            device +
                " works, but cannot run an ordinary Linux kernel: it emulates part of the "
                "instruction set only",
            "use a host with hardware virtualisation (vmx or svm in /proc/cpuinfo), enable nested "
            "virtualisation for "
            "this VM, or try mvm in the lab: tests/lab/lab"};
  } catch (const Error& error) {
    return {Support::NotKvm, device + " is not usable: " + error.message(),
            "use a Linux host with KVM, kernel 5.10 or newer"};
  }
}

}
