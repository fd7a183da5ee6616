#pragma once
// What each kind of thread of the monitor may ask of the kernel once the guest runs. Descriptors
// are made before.

#include <vector>

#include "mvm/jail/seccomp.h"

namespace mvm::monitor {

std::vector<jail::Rule> loop_thread_syscalls();
std::vector<jail::Rule> vcpu_thread_syscalls();
std::vector<jail::Rule> net_thread_syscalls();
std::vector<jail::Rule> disk_thread_syscalls();
// A worker of a disk's engine, where io_uring is not to be had.
std::vector<jail::Rule> disk_worker_syscalls();

}
