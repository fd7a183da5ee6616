// The seam of what SQLite calls.
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <sqlite3.h>

#include "seam.h"

// The C library's own, which are not counted a second time.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
int __real_open(const char* path, int flags, mode_t mode);
ssize_t __real_write(int fd, const void* data, size_t size);
ssize_t __real_pwrite(int fd, const void* data, size_t size, off_t at);
int __real_ftruncate(int fd, off_t size);
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

void watch_database() {
  sqlite3_initialize();
  sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
  replace(vfs, "open", &sqlite_open);
  replace(vfs, "write", &sqlite_write);
  replace(vfs, "pwrite", &sqlite_pwrite);
  replace(vfs, "pwrite64", &sqlite_pwrite);
  replace(vfs, "ftruncate", &sqlite_ftruncate);
}

}
