// What KVM refuses, in turn at each call of a machine's making. The answers are this test's, so it
// needs no KVM.
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <functional>
#include <optional>

#include <dirent.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mvm/base/error.h"
#include "mvm/kvm/boot.h"
#include "mvm/kvm/cpuid.h"
#include "mvm/kvm/kvm.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::kvm {
namespace {

// Stands in for the kernel while it is set.
std::function<int(unsigned long request, void* argument)> answer;

size_t descriptors() {
  size_t count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

constexpr int kRunPages = 3;

// A KVM that takes everything.
int willing(unsigned long request, void* argument) {
  switch (request) {
    case KVM_GET_API_VERSION:
      return KVM_API_VERSION;
    case KVM_CHECK_EXTENSION:
      return 1;
    case KVM_GET_VCPU_MMAP_SIZE:
      return kRunPages * 4096;
    case KVM_CREATE_VM:
      return ::memfd_create("vm", MFD_CLOEXEC);
    case KVM_CREATE_VCPU: {
      const int fd = ::memfd_create("vcpu", MFD_CLOEXEC);
      return ::ftruncate(fd, kRunPages * 4096) == 0 ? fd : -1;
    }
    default:
      break;
  }
  // The headers of these have other sizes in C++ than in C (src/kvm/kvm.cc), so by their numbers.
  if (_IOC_NR(request) == 0x89) return static_cast<int>(*static_cast<uint32_t*>(argument));
  if (_IOC_NR(request) == 0x05) *static_cast<uint32_t*>(argument) = 0;
  return 0;
}

// As the monitor does it.
void make_machine() {
  const Kvm kvm(sys::open_file("/dev/null", O_RDWR));
  const auto memory = memory::GuestMemory::create(4 << 20);
  Vm vm = kvm.create_vm();
  vm.create_irqchip();
  vm.set_memory(memory);
  vm.add_ioeventfd(0, memory::GuestAddress{0x1000}, 0);
  Vcpu vcpu = vm.create_vcpu(0, kvm);
  vcpu.set_cpuid(kvm.supported_cpuid());
  vcpu.set_msrs(boot_msrs());
  vcpu.set_lapic_pins();
  vcpu.set_entry({});
}

class KvmFaults : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { answer = nullptr; }
};

TEST_P(KvmFaults, AtAnyCallAreOneErrorAndLeaveNoDescriptor) {
  int calls = 0;
  answer = [&](unsigned long request, void* argument) {
    ++calls;
    return willing(request, argument);
  };
  make_machine();
  const int all = calls;
  ASSERT_GT(all, 20);
  const size_t before = descriptors();
  for (int failing = 1; failing <= all; ++failing) {
    int call = 0;
    unsigned long failed = 0;
    answer = [&](unsigned long request, void* argument) {
      if (++call != failing) return willing(request, argument);
      failed = request;
      errno = GetParam();
      return -1;
    };
    std::string told;
    try {
      make_machine();
    } catch (const Error& error) {
      told = error.message();
    }
    if (failed == KVM_CREATE_VM && GetParam() == EINTR)
      EXPECT_EQ(told, "") << "the one call that a signal may interrupt";
    else
      EXPECT_NE(told, "") << failing << ": request " << std::hex << failed;
    EXPECT_EQ(told.find('\n'), std::string::npos) << told;
    EXPECT_EQ(descriptors(), before) << told;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, KvmFaults, testing::Values(EINTR, ENOMEM, EMFILE, ENOSPC));

// Signals may come again and again, but not for ever.
TEST(KvmSignals, InterruptTheMakingOfAMachineAFewTimes) {
  for (const int times : {1, 5, 6}) {
    int tries = 0;
    answer = [&](unsigned long request, void* argument) {
      if (request != KVM_CREATE_VM || ++tries > times) return willing(request, argument);
      errno = EINTR;
      return -1;
    };
    std::optional<int> reason;
    try {
      make_machine();
    } catch (const SystemError& error) {
      reason = error.errno_value();
    }
    answer = nullptr;
    EXPECT_EQ(reason, times > 5 ? std::optional<int>(EINTR) : std::nullopt) << times;
    EXPECT_EQ(tries, std::min(times + 1, 6));
  }
}

// A run that a signal ends is no fault, and one for which the kernel has no memory yet is made
// again.
TEST(KvmSignals, EndARunInOrder) {
  int runs = 0;
  int fails_with = EINTR;
  answer = [&](unsigned long request, void* argument) {
    if (request != KVM_RUN) return willing(request, argument);
    if (++runs > 3) return 0;
    errno = fails_with;
    return -1;
  };
  const Kvm kvm(sys::open_file("/dev/null", O_RDWR));
  Vm vm = kvm.create_vm();
  Vcpu vcpu = vm.create_vcpu(0, kvm);
  EXPECT_EQ(vcpu.run().reason, ExitReason::Interrupted);
  EXPECT_EQ(runs, 1);
  for (const int again : {EAGAIN, ENOMEM}) {
    runs = 0;
    fails_with = again;
    EXPECT_EQ(vcpu.run().reason, ExitReason::Other);  // the run area says "unknown"
    EXPECT_EQ(runs, 4);
  }
  runs = 0;
  fails_with = EFAULT;
  EXPECT_THROW(vcpu.run(), SystemError);
  EXPECT_EQ(runs, 1);
  answer = nullptr;
}

}
}

// The linker's names: the module's calls of ioctl() come here.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int __real_ioctl(int fd, unsigned long request, void* argument);
int __wrap_ioctl(int fd, unsigned long request, ...) {
  std::va_list rest;
  va_start(rest, request);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return mvm::kvm::answer ? mvm::kvm::answer(request, argument)
                          : __real_ioctl(fd, request, argument);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
