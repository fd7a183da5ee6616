#include "syscalls.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "mvm/kvm/requests.h"

namespace mvm::monitor {

// What every thread may come to, by way of the C and C++ libraries: memory, locks, and abort() with
// its message.
static void add_common(std::vector<jail::Rule>& rules) {
  const std::vector<jail::Rule> common = {
      {__NR_futex, "locks between the threads"},
      {__NR_clock_gettime, "time, where the vDSO cannot tell it"},
      {__NR_brk, "memory"},
      {__NR_mmap, "memory, none of which runs", {PROT_NONE, PROT_READ | PROT_WRITE}, 2},
      {__NR_munmap, "memory"},
      {__NR_mremap, "memory"},
      {__NR_madvise, "memory goes back", {MADV_DONTNEED}, 2},
      {__NR_mprotect, "memory: a thread's heap grows", {PROT_READ | PROT_WRITE}, 2},
      {__NR_rt_sigprocmask, "abort()"},
      {__NR_gettid, "abort()"},
      {__NR_getpid, "abort()"},
      {__NR_tgkill, "abort()"},
  };
  rules.insert(rules.end(), common.begin(), common.end());
}

std::vector<jail::Rule> loop_thread_syscalls() {
  std::vector<jail::Rule> rules = {
      {__NR_epoll_wait, "the loop"},
      {__NR_read, "kicks (eventfd)"},
      {__NR_write, "kicks (eventfd)"},
      {__NR_ioctl, "interrupts", {kvm::kInterruptRequest}, 1},
      {__NR_readv, "a host socket into guest memory"},
      {__NR_writev, "guest memory into a host socket"},
      {__NR_epoll_ctl, "host sockets come and go"},
      {__NR_recvmsg,
       "requests of the sandbox process, with a stream's descriptor; keys typed at the console"},
      {__NR_sendmsg, "events for the sandbox process"},
      {__NR_sendto, "the OK line of a stream, what the console says"},
      {__NR_shutdown, "half-close of a host socket"},
      {__NR_fcntl, "non-blocking mode of a host socket", {F_GETFL, F_SETFL}, 1},
      {__NR_close, "a host socket ends"},
      {__NR_pwrite64, "the console log"},
      {__NR_fallocate,
       "gives back space of the console log",
       {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
       1},
      {__NR_getrandom, "the entropy device"},
      {__NR_pread64, "counters of KVM"},
      {__NR_exit_group, "the machine has ended"},
  };
  add_common(rules);
  return rules;
}

std::vector<jail::Rule> vcpu_thread_syscalls() {
  std::vector<jail::Rule> rules = {
      {__NR_ioctl, "runs the vCPU; interrupts", {kvm::kRunRequest, kvm::kInterruptRequest}, 1},
      {__NR_write, "kicks (eventfd), a message to the loop"},
      {__NR_pwrite64, "the console log"},
      {__NR_fallocate,
       "gives back space of the console log",
       {FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
       1},
      {__NR_exit, "the thread ends with the machine"},
  };
  add_common(rules);
  return rules;
}

std::vector<jail::Rule> net_thread_syscalls() {
  std::vector<jail::Rule> rules = {
      {__NR_ppoll, "waits for a kick or a frame"},
      {__NR_read, "takes kicks (eventfd)"},
      {__NR_write, "kicks (eventfd)"},
      {__NR_readv, "a frame from the TAP into guest memory"},
      {__NR_writev, "a frame of the guest's to the TAP"},
      {__NR_ioctl,
       "interrupts; the offloads that the driver takes",
       {kvm::kInterruptRequest, TUNSETOFFLOAD},
       1},
      {__NR_exit, "the thread ends of a failure, which is told first"},
  };
  add_common(rules);
  return rules;
}

std::vector<jail::Rule> disk_thread_syscalls() {
  std::vector<jail::Rule> rules = {
      {__NR_ppoll, "waits for a kick, an answer, or the time that a limit sets"},
      {__NR_read, "takes kicks (eventfd)"},
      {__NR_write, "kicks (eventfd)"},
      {__NR_ioctl, "interrupts", {kvm::kInterruptRequest}, 1},
      {__NR_io_uring_enter, "starts requests; the ring is restricted to its disk (uring_engine.h)"},
      {__NR_exit, "the thread ends of a failure, which is told first"},
  };
  add_common(rules);
  return rules;
}

std::vector<jail::Rule> disk_worker_syscalls() {
  std::vector<jail::Rule> rules = {
      {__NR_preadv, "reads the disk into guest memory"},
      {__NR_pwritev, "writes guest memory to the disk"},
      {__NR_fdatasync, "FLUSH"},
      {__NR_fallocate, "DISCARD and WRITE_ZEROES"},
      {__NR_write, "says that an answer is there (eventfd)"},
      {__NR_exit, "the thread ends of a failure, which is told first"},
  };
  add_common(rules);
  return rules;
}

}
