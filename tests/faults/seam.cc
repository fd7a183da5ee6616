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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

namespace mvm::faults {

static Plan* plan = nullptr;

Plan& map_plan(int fd) {
  void* memory = ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) std::abort();
  return *static_cast<Plan*>(memory);
}

// True when this call is to fail, with errno set; `possible` are the errors that its manual page
// names. For a plan of another error the call does not count.
static bool fails(std::initializer_list<int> possible) {
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

// SQLite takes an interrupted fsync() for a broken disk: its transaction fails, and its caller
// hears of it. That is as good as can be had of it, and no fault of the daemon's.
static bool sync_fails(int fd) {
  std::array<char, 256> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
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

MVM_SEAM(ssize_t, read, (int fd, void* data, size_t size), (fd, data, size), -1, EINTR, ENOMEM)
ssize_t __real_write(int fd, const void* data, size_t size);
ssize_t __wrap_write(int fd, const void* data, size_t size) {
  // An eventfd or a socket knows no full disk.
  struct stat status{};
  const bool file = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (file ? fails({EINTR, ENOSPC}) : fails({EINTR})) return -1;
  return __real_write(fd, data, size);
}
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
MVM_SEAM(int, connect, (int fd, const sockaddr* address, socklen_t size), (fd, address, size), -1,
         EINTR, ENOMEM)
MVM_SEAM(int, eventfd, (unsigned count, int flags), (count, flags), -1, EMFILE, ENOMEM)
MVM_SEAM(int, epoll_create1, (int flags), (flags), -1, EMFILE, ENOMEM)
MVM_SEAM(int, epoll_ctl, (int epoll, int operation, int fd, epoll_event* event),
         (epoll, operation, fd, event), -1, ENOMEM, ENOSPC)
MVM_SEAM(int, epoll_wait, (int epoll, epoll_event* events, int most, int timeout),
         (epoll, events, most, timeout), -1, EINTR)
MVM_SEAM(int, poll, (pollfd * entries, nfds_t count, int timeout), (entries, count, timeout), -1,
         EINTR)  // of few entries, which take no memory
MVM_SEAM(int, pipe2, (int* ends, int flags), (ends, flags), -1, EMFILE)
MVM_SEAM(pid_t, fork, (), (), -1, ENOMEM)
MVM_SEAM(int, waitid, (idtype_t type, id_t id, siginfo_t* info, int options),
         (type, id, info, options), -1, EINTR)
MVM_SEAM(int, flock, (int fd, int operation), (fd, operation), -1, ENOMEM)  // ours do not wait
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
MVM_SEAM(ssize_t, getrandom, (void* data, size_t size, unsigned flags), (data, size, flags), -1,
         EINTR)
MVM_SEAM(DIR*, fdopendir, (int fd), (fd), nullptr, ENOMEM)
MVM_SEAM(int, inotify_add_watch, (int fd, const char* path, uint32_t what), (fd, path, what), -1,
         ENOSPC, ENOMEM)
MVM_SEAM(int, inotify_init1, (int flags), (flags), -1, EMFILE, ENOMEM)
MVM_SEAM(int, memfd_create, (const char* name, unsigned flags), (name, flags), -1, EMFILE, ENOMEM)
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace mvm::faults {

// SQLite's own seam (sqlite3_vfs::xSetSystemCall), for what its library calls.
static int sqlite_open(const char* path, int flags, int mode) {
  if (fails({EMFILE, ENOMEM, EINTR, ENOSPC})) return -1;
  return __real_open(path, flags, static_cast<mode_t>(mode));
}
static ssize_t sqlite_write(int fd, const void* data, size_t size) {
  if (fails({ENOSPC, EINTR})) return -1;
  return __real_write(fd, data, size);
}
static ssize_t sqlite_pwrite(int fd, const void* data, size_t size, off_t at) {
  if (fails({ENOSPC, EINTR})) return -1;
  return __real_pwrite(fd, data, size, at);
}
static int sqlite_ftruncate(int fd, off_t size) {
  if (fails({EINTR, ENOSPC})) return -1;
  return __real_ftruncate(fd, size);
}

template <typename Function>
static void replace(sqlite3_vfs* vfs, const char* name, Function function) {
  // As the interface has it: a pointer to any function.
  vfs->xSetSystemCall(vfs, name, reinterpret_cast<sqlite3_syscall_ptr>(function));
}

void watch_calls(Plan& shared) {
  sqlite3_initialize();
  sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
  replace(vfs, "open", &sqlite_open);
  replace(vfs, "write", &sqlite_write);
  replace(vfs, "pwrite", &sqlite_pwrite);
  replace(vfs, "pwrite64", &sqlite_pwrite);
  replace(vfs, "ftruncate", &sqlite_ftruncate);
  pid_t nobody = 0;
  shared.victim.compare_exchange_strong(nobody, ::getpid());
  plan = &shared;
}

}
