// The lists of the monitor's threads, each tried on a real child under the monitor's own jail: a
// call that is not on it ends the process.
#include "../../../src/monitor/syscalls.h"

#include <linux/if_tun.h>
#include <sys/ioctl.h>

#include "../../support/forbidden_calls.h"

namespace mvm::monitor {

TEST(MonitorSyscalls, LoopThreadIsKilledForAForbiddenCall) {
  test::expect_forbidden(loop_thread_syscalls(), {});
}
TEST(MonitorSyscalls, VcpuThreadIsKilledForAForbiddenCall) {
  test::expect_forbidden(vcpu_thread_syscalls(), {});
}
TEST(MonitorSyscalls, DiskThreadIsKilledForAForbiddenCall) {
  test::expect_forbidden(disk_thread_syscalls(), {});
}
TEST(MonitorSyscalls, DiskWorkerIsKilledForAForbiddenCall) {
  test::expect_forbidden(disk_worker_syscalls(), {});
}
TEST(MonitorSyscalls, NetThreadIsKilledForAForbiddenCall) {
  test::expect_forbidden(net_thread_syscalls(), {});
}

TEST(MonitorSyscalls, NetThreadMayAskOfTheTapOnlyOffloads) {
  test::expect_killed(net_thread_syscalls(), "TUNSETIFF", [] { ::ioctl(0, TUNSETIFF, 0); });
  test::expect_killed(net_thread_syscalls(), "TUNATTACHFILTER",
                      [] { ::ioctl(0, TUNATTACHFILTER, 0); });
  test::expect_survived(net_thread_syscalls(), "TUNSETOFFLOAD",
                        [] { ::ioctl(0, TUNSETOFFLOAD, 0); });
}

TEST(MonitorSyscalls, VcpuThreadMayAskOfKvmOnlyToRun) {
  test::expect_killed(vcpu_thread_syscalls(), "KVM_SET_USER_MEMORY_REGION",
                      [] { ::ioctl(0, 0x4020ae46, 0); });
  test::expect_killed(vcpu_thread_syscalls(), "KVM_SET_REGS", [] { ::ioctl(0, 0x4090ae82, 0); });
  test::expect_survived(vcpu_thread_syscalls(), "KVM_RUN", [] { ::ioctl(0, 0xae80, 0); });
}

}
