#include "syscalls.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace mvm::sandbox {

// What carries the guest's connections besides: sockets to other machines, and what is spliced
// between those and the guest's.
static void add_network(std::vector<jail::Rule>& rules) {
  const std::vector<jail::Rule> network = {
      {__NR_socket, "a connection for the guest, a query to a resolver", {AF_INET, AF_INET6}, 0},
      {__NR_getsockopt,
       "how a connection attempt went; what the kernel holds for one, and whether it is over",
       {SO_ERROR, SO_MEMINFO, TCP_INFO},
       2},
      {__NR_ioctl, "what a peer has not confirmed", {SIOCOUTQ}, 1},
      {__NR_setsockopt,
       "delays, keep-alive, how much wakes us",
       {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, SO_KEEPALIVE, SO_RCVLOWAT},
       2},
      {__NR_getsockname, "where the guest wanted to go"},
      {__NR_pipe2, "for bytes on their way", {O_NONBLOCK | O_CLOEXEC}, 1},
      {__NR_fcntl, "how many of them", {F_SETPIPE_SZ}, 1},
      {__NR_splice, "bytes between two sockets"},
      {__NR_eventfd2, "a descriptor held in reserve"},
      {__NR_getrandom, "numbers of queries"},
  };
  rules.insert(rules.end(), network.begin(), network.end());
}

std::vector<jail::Rule> sandbox_syscalls(bool has_network) {
  std::vector<jail::Rule> rules = {
      {__NR_epoll_wait, "the loop"},
      {__NR_read, "frames of clients and of the agent; the loop's eventfd"},
      {__NR_sendto, "frames to clients and to the agent"},
      {__NR_write, "the loop's eventfd, exit.json, audit records"},
      {__NR_epoll_ctl, "connections come and go"},
      {__NR_recvmsg, "events of the monitor; frames of clients, with listening sockets"},
      {__NR_sendmsg, "requests to the monitor, with a stream's descriptor"},
      {__NR_accept4, "control and vsock sockets, published ports"},
      {__NR_getsockopt,
       "who a client is, and whether what it hands over listens, or is a stream socket",
       {SO_PEERCRED, SO_ACCEPTCONN, SO_DOMAIN, SO_TYPE},
       2},
      {__NR_setsockopt, "published ports: no delay, and resets", {TCP_NODELAY, SO_LINGER}, 2},
      {__NR_shutdown, "half-close: of published ports' connections"},
      {__NR_recvfrom, "the CONNECT line"},
      {__NR_fcntl, "non-blocking mode", {F_GETFL, F_SETFL}, 1},
      {__NR_close, "connections end"},
      {__NR_socket, "a guest's connection to a host port's socket", {AF_UNIX}, 0},
      {__NR_connect, "the same"},
      {__NR_socketpair, "the stream to the agent", {AF_UNIX}, 0},
      {__NR_openat,
       "exit.json, boot.json, the audit log's next file: new files, never ones that are there",
       {O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
        O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY},
       2},
      {__NR_unlinkat, "a left-over exit.json.new"},
      {__NR_fdatasync, "exit.json, the audit log at its end"},
      {__NR_renameat, "exit.json"},
      {__NR_waitid, "reaps the monitor"},
      {__NR_pidfd_send_signal, "ends the monitor"},
      {__NR_getrandom, "ids of runs that a client gave none"},
      {__NR_getpid, "status; the C library"},
      {__NR_geteuid, "who may connect"},
      {__NR_clock_gettime, "time, where the vDSO cannot tell it"},
      {__NR_futex, "the C++ library"},
      {__NR_brk, "memory"},
      {__NR_mmap, "memory, none of which runs", {PROT_NONE, PROT_READ | PROT_WRITE}, 2},
      {__NR_munmap, "memory"},
      {__NR_mremap, "memory"},
      {__NR_mprotect, "memory: a thread's heap grows", {PROT_READ | PROT_WRITE}, 2},
      {__NR_madvise, "memory goes back", {MADV_DONTNEED}, 2},
      {__NR_rt_sigprocmask, "abort()"},
      {__NR_gettid, "abort()"},
      {__NR_tgkill, "abort()"},
      {__NR_exit_group, "ends"},
  };
  if (has_network) add_network(rules);
  return rules;
}

std::vector<jail::Rule> audit_syscalls() {
  return {
      {__NR_futex, "waits for records to sync"},
      {__NR_restart_syscall, "such a wait goes on after the process was stopped or frozen"},
      {__NR_fdatasync, "brings them to the disk"},
      {__NR_write, "a checkpoint; tells the loop of a failure"},
      {__NR_clock_gettime, "time, where the vDSO cannot tell it"},
      {__NR_close, "a file that is full and synced"},
      {__NR_brk, "memory"},
      {__NR_mmap, "memory, none of which runs", {PROT_NONE, PROT_READ | PROT_WRITE}, 2},
      {__NR_munmap, "memory"},
      {__NR_mprotect, "memory: a thread's heap grows", {PROT_READ | PROT_WRITE}, 2},
      {__NR_madvise, "memory goes back", {MADV_DONTNEED}, 2},
      {__NR_rt_sigprocmask, "abort()"},
      {__NR_getpid, "abort()"},
      {__NR_gettid, "abort()"},
      {__NR_tgkill, "abort()"},
      {__NR_exit, "the thread ends"},
  };
}

}
