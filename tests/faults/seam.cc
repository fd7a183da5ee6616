#include "seam.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mvm::faults {

static Plan* plan = nullptr;

Plan& map_plan(int fd) {
  void* memory = ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) std::abort();
  return *static_cast<Plan*>(memory);
}

bool fails(std::initializer_list<int> possible) {
  if (plan == nullptr || plan->countdown.load(std::memory_order_relaxed) <= 0) return false;
  if (plan->victim.load() != ::getpid()) return false;
  const int error = plan->error.load();
  bool counts = error == kKill;
  for (const int each : possible) counts = counts || each == error;
  if (!counts) return false;
  plan->calls.fetch_add(1);
  if (plan->countdown.fetch_sub(1) != 1) return false;
  if (error == kKill) ::kill(::getpid(), SIGKILL);
  errno = error;
  return true;
}

extern "C" ssize_t __real_readlink(const char* path, char* target, size_t size);

// SQLite takes an interrupted fsync() for a broken disk: its transaction fails, and its caller
// hears of it. That is as good as can be had of it, and no fault of the daemon's.
static bool sync_fails(int fd) {
  std::array<char, 256> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = __real_readlink(link.c_str(), path.data(), path.size());
  const std::string_view name(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return name.find(".db") != name.npos ? fails({ENOSPC}) : fails({ENOSPC, EINTR});
}

}

using mvm::faults::fails;
using mvm::faults::sync_fails;

// The names are the linker's: __wrap_X stands for X, and __real_X is what X was.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

#define MVM_SEAM(result, name, parameters, arguments, failure, ...) \
  result __real_##name parameters;                                  \
  result __wrap_##name parameters {                                 \
    if (fails({__VA_ARGS__})) return failure;                       \
    return __real_##name arguments;                                 \
  }

int __real_open(const char* path, int flags, mode_t mode);
int __wrap_open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) != 0 ? fails({EMFILE, ENOMEM, EINTR, ENOSPC})
                             : fails({EMFILE, ENOMEM, EINTR}))
    return -1;
  return __real_open(path, flags, mode);
}
int __real_openat(int at, const char* path, int flags, mode_t mode);
int __wrap_openat(int at, const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & O_CREAT) != 0 ? fails({EMFILE, ENOMEM, EINTR, ENOSPC})
                             : fails({EMFILE, ENOMEM, EINTR}))
    return -1;
  return __real_openat(at, path, flags, mode);
}
// What the C library makes of the former when it checks arguments (_FORTIFY_SOURCE).
MVM_SEAM(int, __openat_2, (int at, const char* path, int flags), (at, path, flags), -1, EMFILE,
         ENOMEM, EINTR)
MVM_SEAM(ssize_t, __recv_chk, (int fd, void* data, size_t size, size_t room, int flags),
         (fd, data, size, room, flags), -1, EINTR, ENOMEM)
int __real_fcntl(int fd, int command, void* argument);
int __wrap_fcntl(int fd, int command, ...) {
  std::va_list rest;
  va_start(rest, command);
  void* argument = va_arg(rest, void*);
  va_end(rest);
  if (command == F_DUPFD_CLOEXEC && fails({EMFILE})) return -1;
  return __real_fcntl(fd, command, argument);
}
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, ...) {
  std::va_list rest;
  va_start(rest, number);
  std::array<long, 6> arguments{};
  for (long& each : arguments) each = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_pidfd_open && fails({EMFILE, ENOMEM})) return -1;
  if (number == SYS_renameat2 && fails({ENOSPC, ENOMEM})) return -1;
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]);
}

MVM_SEAM(int, fstat, (int fd, struct stat* status), (fd, status), -1, ENOMEM)
MVM_SEAM(int, stat, (const char* path, struct stat* status), (path, status), -1, ENOMEM)
MVM_SEAM(int, lstat, (const char* path, struct stat* status), (path, status), -1, ENOMEM)
MVM_SEAM(int, fstatat, (int at, const char* path, struct stat* status, int flags),
         (at, path, status, flags), -1, ENOMEM)
MVM_SEAM(int, access, (const char* path, int mode), (path, mode), -1, ENOMEM)
MVM_SEAM(int, faccessat, (int at, const char* path, int mode, int flags), (at, path, mode, flags),
         -1, ENOMEM)
MVM_SEAM(ssize_t, readlink, (const char* path, char* target, size_t size), (path, target, size), -1,
         ENOMEM)
MVM_SEAM(ssize_t, readlinkat, (int at, const char* path, char* target, size_t size),
         (at, path, target, size), -1, ENOMEM)
MVM_SEAM(dirent*, readdir, (DIR * stream), (stream), nullptr, ENOMEM)
MVM_SEAM(ssize_t, read, (int fd, void* data, size_t size), (fd, data, size), -1, EINTR, ENOMEM)
ssize_t __real_write(int fd, const void* data, size_t size);
ssize_t __wrap_write(int fd, const void* data, size_t size) {
  // An eventfd or a socket knows no full disk.
  struct stat status{};
  const bool file = __real_fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (file ? fails({EINTR, ENOSPC}) : fails({EINTR})) return -1;
  return __real_write(fd, data, size);
}
MVM_SEAM(ssize_t, recv, (int fd, void* data, size_t size, int flags), (fd, data, size, flags), -1,
         EINTR, ENOMEM)
MVM_SEAM(ssize_t, writev, (int fd, const iovec* pieces, int count), (fd, pieces, count), -1, EINTR,
         ENOMEM)
MVM_SEAM(ssize_t, readv, (int fd, const iovec* pieces, int count), (fd, pieces, count), -1, EINTR,
         ENOMEM)
MVM_SEAM(ssize_t, splice,
         (int in, off64_t* in_at, int out, off64_t* out_at, size_t size, unsigned flags),
         (in, in_at, out, out_at, size, flags), -1, EINTR, ENOMEM)
MVM_SEAM(ssize_t, pread, (int fd, void* data, size_t size, off_t at), (fd, data, size, at), -1,
         EINTR, ENOMEM)
MVM_SEAM(ssize_t, pwrite, (int fd, const void* data, size_t size, off_t at), (fd, data, size, at),
         -1, EINTR, ENOSPC)
MVM_SEAM(ssize_t, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags),
         -1, EINTR, ENOMEM)
MVM_SEAM(ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags), -1,
         EINTR, ENOMEM)
MVM_SEAM(ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags), -1, EINTR,
         ENOMEM)
MVM_SEAM(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE,
         ENOMEM)
MVM_SEAM(int, socketpair, (int domain, int type, int protocol, int* ends),
         (domain, type, protocol, ends), -1, EMFILE, ENOMEM)
MVM_SEAM(int, accept4, (int fd, sockaddr* address, socklen_t* size, int flags),
         (fd, address, size, flags), -1, EMFILE, ENOMEM, EINTR)
MVM_SEAM(int, bind, (int fd, const sockaddr* address, socklen_t size), (fd, address, size), -1,
         ENOMEM, ENOSPC)
int __real_connect(int fd, const sockaddr* address, socklen_t size);
int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  // What does not wait is not interrupted.
  const bool waits = (__real_fcntl(fd, F_GETFL, nullptr) & O_NONBLOCK) == 0;
  if (waits ? fails({EINTR, ENOMEM}) : fails({ENOMEM})) return -1;
  return __real_connect(fd, address, size);
}
MVM_SEAM(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size),
         (fd, level, name, value, size), -1, ENOMEM)
MVM_SEAM(int, dup3, (int fd, int as, int flags), (fd, as, flags), -1, EMFILE, EINTR)
MVM_SEAM(int, signalfd, (int fd, const sigset_t* set, int flags), (fd, set, flags), -1, EMFILE,
         ENOMEM)
MVM_SEAM(int, eventfd, (unsigned count, int flags), (count, flags), -1, EMFILE, ENOMEM)
MVM_SEAM(int, epoll_create1, (int flags), (flags), -1, EMFILE, ENOMEM)
int __real_epoll_ctl(int epoll, int operation, int fd, epoll_event* event);
int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  // To change or to remove what is there takes no memory.
  if (operation == EPOLL_CTL_ADD ? fails({ENOMEM, ENOSPC}) : fails({})) return -1;
  return __real_epoll_ctl(epoll, operation, fd, event);
}
MVM_SEAM(int, epoll_wait, (int epoll, epoll_event* events, int most, int timeout),
         (epoll, events, most, timeout), -1, EINTR)
MVM_SEAM(int, poll, (pollfd * entries, nfds_t count, int timeout), (entries, count, timeout), -1,
         EINTR)  // of few entries, which take no memory
MVM_SEAM(int, pipe2, (int* ends, int flags), (ends, flags), -1, EMFILE)
MVM_SEAM(pid_t, fork, (), (), -1, ENOMEM)
MVM_SEAM(int, waitid, (idtype_t type, id_t id, siginfo_t* info, int options),
         (type, id, info, options), -1, EINTR)
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation) {
  if ((operation & LOCK_NB) != 0 ? fails({ENOMEM}) : fails({ENOMEM, EINTR})) return -1;
  return __real_flock(fd, operation);
}
int __real_fsync(int fd);
int __wrap_fsync(int fd) {
  if (sync_fails(fd)) return -1;
  return __real_fsync(fd);
}
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
  if (sync_fails(fd)) return -1;
  return __real_fdatasync(fd);
}
MVM_SEAM(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size), -1, EINTR,
         ENOSPC)
MVM_SEAM(int, ftruncate, (int fd, off_t size), (fd, size), -1, EINTR)
MVM_SEAM(int, mkdir, (const char* path, mode_t mode), (path, mode), -1, ENOSPC, ENOMEM)
MVM_SEAM(int, mkdirat, (int at, const char* path, mode_t mode), (at, path, mode), -1, ENOSPC,
         ENOMEM)
MVM_SEAM(int, renameat, (int from_at, const char* from, int to_at, const char* to),
         (from_at, from, to_at, to), -1, ENOSPC, ENOMEM)
MVM_SEAM(int, symlinkat, (const char* to, int at, const char* path), (to, at, path), -1, ENOSPC,
         ENOMEM)
MVM_SEAM(int, linkat, (int from_at, const char* from, int to_at, const char* to, int flags),
         (from_at, from, to_at, to, flags), -1, ENOSPC, ENOMEM)
MVM_SEAM(int, utimensat, (int at, const char* path, const timespec* times, int flags),
         (at, path, times, flags), -1, ENOMEM)
MVM_SEAM(int, fchownat, (int at, const char* path, uid_t user, gid_t group, int flags),
         (at, path, user, group, flags), -1, ENOMEM, ENOSPC)
MVM_SEAM(int, sync_file_range, (int fd, off64_t at, off64_t size, unsigned flags),
         (fd, at, size, flags), -1, ENOSPC, ENOMEM)
MVM_SEAM(int, statvfs, (const char* path, struct statvfs* status), (path, status), -1, EINTR,
         ENOMEM)
MVM_SEAM(int, symlink, (const char* to, const char* path), (to, path), -1, ENOSPC, ENOMEM)
MVM_SEAM(int, rename, (const char* from, const char* to), (from, to), -1, ENOSPC, ENOMEM)
MVM_SEAM(int, unlink, (const char* path), (path), -1)
MVM_SEAM(int, unlinkat, (int at, const char* path, int flags), (at, path, flags), -1)
MVM_SEAM(int, chmod, (const char* path, mode_t mode), (path, mode), -1, ENOMEM)
MVM_SEAM(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
MVM_SEAM(ssize_t, copy_file_range,
         (int in, off64_t* in_at, int out, off64_t* out_at, size_t size, unsigned flags),
         (in, in_at, out, out_at, size, flags), -1, ENOSPC, ENOMEM)
MVM_SEAM(void*, mmap, (void* at, size_t size, int protection, int flags, int fd, off_t offset),
         (at, size, protection, flags, fd, offset), MAP_FAILED, ENOMEM)
ssize_t __real_getrandom(void* data, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void* data, size_t size, unsigned flags) {
  // Up to 256 bytes come whole (getrandom(2)).
  if (size > 256 && fails({EINTR})) return -1;
  return __real_getrandom(data, size, flags);
}
MVM_SEAM(DIR*, fdopendir, (int fd), (fd), nullptr, ENOMEM)
MVM_SEAM(int, inotify_add_watch, (int fd, const char* path, uint32_t what), (fd, path, what), -1,
         ENOSPC, ENOMEM)
MVM_SEAM(int, inotify_init1, (int flags), (flags), -1, EMFILE, ENOMEM)
MVM_SEAM(int, memfd_create, (const char* name, unsigned flags), (name, flags), -1, EMFILE, ENOMEM)
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace mvm::faults {

void watch_calls(Plan& shared) {
  pid_t nobody = 0;
  shared.victim.compare_exchange_strong(nobody, ::getpid());
  plan = &shared;
}

}
