#include "mvm/sys/file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/sys/error.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::sys {

Fd open_file(const std::string& path, int flags, unsigned mode) {
  return open_at(AT_FDCWD, path, flags, mode);
}

std::optional<Fd> open_if_exists(const std::string& path, int flags) {
  try {
    return open_file(path, flags);
  } catch (const SystemError& error) {
    if (error.errno_value() == ENOENT) return std::nullopt;
    throw;
  }
}

Fd open_at(int directory, const std::string& name, int flags, unsigned mode) {
  while (true) {
    const int fd = ::openat(directory, name.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode);
    if (fd >= 0) return Fd(fd);
    if (errno != EINTR) throw SystemError(errno, "opening " + name);
  }
}

static struct stat status_of(int fd) {
  struct stat status{};
  check(::fstat(fd, &status), "reading file status");
  return status;
}

uint64_t file_size(int fd) { return static_cast<uint64_t>(status_of(fd).st_size); }
FileStamp stamp_of(int fd) {
  constexpr int64_t kSecond = 1'000'000'000;
  const struct stat status = status_of(fd);
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = static_cast<uint64_t>(status.st_size),
          .changed_ns = status.st_ctim.tv_sec * kSecond + status.st_ctim.tv_nsec};
}
bool is_regular_file(int fd) { return S_ISREG(status_of(fd).st_mode); }
bool is_directory(int fd) { return S_ISDIR(status_of(fd).st_mode); }

void resize_file(int fd, uint64_t size, std::string_view doing) {
  while (::ftruncate(fd, static_cast<off_t>(size)) != 0)
    if (errno != EINTR) throw SystemError(errno, doing);
}

void punch_hole(int fd, uint64_t offset, uint64_t length) {
  int result = 0;
  do {
    result = ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                         static_cast<off_t>(length));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno != EOPNOTSUPP && errno != ENOSYS) throw SystemError(errno, "punching a hole");
  const Bytes zeros(static_cast<size_t>(std::min<uint64_t>(length, uint64_t{1} << 20)));
  for (uint64_t done = 0; done < length; done += zeros.size())
    pwrite_all(fd, ByteView(zeros).first(std::min<uint64_t>(zeros.size(), length - done)),
               offset + done);
}

bool exists(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) return true;
  if (errno == ENOMEM || errno == EIO) throw SystemError(errno, "looking for " + path);
  return false;
}

[[noreturn]] static void refuse_foreign(const std::string& path, const std::string& what) {
  throw Error(Kind::Denied,
              path + " is not mvm's own file: it is " + what + "; remove it and try again");
}

static void check_own(const std::string& path, const struct stat& status, bool written) {
  if (S_ISLNK(status.st_mode)) refuse_foreign(path, "a symbolic link");
  if (S_ISDIR(status.st_mode)) refuse_foreign(path, "a directory");
  if (!S_ISREG(status.st_mode)) refuse_foreign(path, "a FIFO, a socket or a device");
  if (status.st_uid != ::geteuid() && (written || status.st_uid != 0))
    refuse_foreign(path, "a file of user " + std::to_string(status.st_uid));
  if (written && status.st_nlink > 1) refuse_foreign(path, "a file that has other names too");
}

Fd open_own_file(const std::string& path, int flags, unsigned mode) {
  MVM_ASSERT((flags & O_TRUNC) == 0);
  // Not blocking: to open a FIFO waits for its other end.
  const int all = flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  while (true) {
    Fd fd(::open(path.c_str(), all, mode));
    if (fd) {
      check_own(path, status_of(fd.get()), (flags & O_ACCMODE) != O_RDONLY);
      return fd;
    }
    const int failure = errno;
    if (failure == EINTR) continue;
    struct stat status{};
    if ((failure == ELOOP || failure == EISDIR || failure == ENXIO) &&
        ::lstat(path.c_str(), &status) == 0)
      check_own(path, status, true);
    throw SystemError(failure, "opening " + path);
  }
}

void require_own_file(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    throw SystemError(errno, "reading status of " + path);
  }
  check_own(path, status, true);
}

static Bytes read_all(const Fd& fd, const std::string& path, size_t limit) {
  Bytes content;
  // /proc files state no size, so the size is a hint and the end of file decides.
  content.reserve(std::min<uint64_t>(file_size(fd.get()) + 1, limit + 1));
  while (true) {
    const size_t had = content.size();
    if (had > limit)
      throw Error(Kind::Exhausted, path + " is larger than " + std::to_string(limit) + " bytes");
    content.resize(std::max(content.capacity(), had + 4096));
    const auto got = read_some(fd.get(), std::span(content).subspan(had));
    content.resize(had + got.value_or(0));
    if (got.value_or(0) == 0) return content;
  }
}

Bytes read_file(const std::string& path, size_t limit) {
  return read_all(open_file(path, O_RDONLY), path, limit);
}

std::string read_own_text_file(const std::string& path, size_t limit) {
  return std::string(as_text(read_all(open_own_file(path, O_RDONLY), path, limit)));
}

std::string read_text_file(const std::string& path, size_t limit) {
  return std::string(as_text(read_file(path, limit)));
}

std::string read_regular_text_file(const std::string& path, size_t limit) {
  const Fd fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!is_regular_file(fd.get())) throw Error(Kind::Invalid, path + " is not a regular file");
  return std::string(as_text(read_all(fd, path, limit)));
}

static std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sync_directory(const std::string& path) {
  const Fd fd = open_file(path, O_RDONLY | O_DIRECTORY);
  check(uninterrupted([&] { return ::fsync(fd.get()); }), "syncing " + path);
}

void write_file_atomic(const std::string& path, ByteView data, unsigned mode) {
  static std::atomic<unsigned> counter{0};
  const std::string temporary =
      path + ".new-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  Fd fd = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  ScopeExit remove([&] { ::unlink(temporary.c_str()); });
  write_all(fd.get(), data);
  check(uninterrupted([&] { return ::fsync(fd.get()); }), "syncing " + temporary);
  fd.reset();
  check(::rename(temporary.c_str(), path.c_str()), "renaming to " + path);
  remove.release();
  sync_directory(parent_of(path));
}

void make_directories(const std::string& path, unsigned mode) {
  for (size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
      throw SystemError(errno, "making directory " + part);
  }
  const Fd fd = open_file(path, O_RDONLY | O_DIRECTORY);
}

// Depth is bounded by the caller's tree; each level holds one descriptor.
static void remove_at(int directory, const std::string& name, const std::string& shown) {
  if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return;
  if (errno != EISDIR && errno != EPERM) throw SystemError(errno, "removing " + shown);
  Fd fd = open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd.get()), &::closedir);
  if (!stream) throw SystemError(errno, "reading " + shown);
  fd.release();
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string child = entry->d_name;
    if (child != "." && child != "..") remove_at(::dirfd(stream.get()), child, shown + "/" + child);
  }
  if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    throw SystemError(errno, "removing " + shown);
}

// Descriptors and memory are short for moments, a process that ends may still have put something
// in, and half a tree is of no use to anybody.
static bool is_passing(int failure) {
  return failure == EMFILE || failure == ENFILE || failure == ENOMEM || failure == ENOTEMPTY;
}

void remove_tree(const std::string& path) {
  for (int tries = 1;; ++tries) {
    try {
      return remove_at(AT_FDCWD, path, path);
    } catch (const SystemError& error) {
      if (tries == 3 || !is_passing(error.errno_value())) throw;
    }
  }
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw SystemError(errno, "removing " + path);
}

void rename_file(const std::string& from, const std::string& to) {
  check(::rename(from.c_str(), to.c_str()), "renaming " + from + " to " + to);
}

std::optional<uint64_t> next_data(int fd, uint64_t offset) {
  const off_t found = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (found >= 0) return static_cast<uint64_t>(found);
  if (errno == ENXIO) return std::nullopt;
  throw SystemError(errno, "looking for data in a file");
}

Fd watch_file(const std::string& path) {
  Fd fd(check(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "making a file watch"));
  check(::inotify_add_watch(fd.get(), path.c_str(), IN_MODIFY), "watching " + path);
  return fd;
}

Fd watch_directory(const std::string& path) {
  Fd fd(check(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "making a directory watch"));
  check(::inotify_add_watch(fd.get(), path.c_str(),
                            IN_MODIFY | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR),
        "watching " + path);
  return fd;
}

void drain_watch(int fd) {
  // Room for one event at least (inotify(7)); what happened is not looked at.
  std::array<std::byte, 4096> events{};
  while (read_some(fd, events)) {
  }
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) throw SystemError(error.value(), "reading directory " + path);
  std::sort(names.begin(), names.end());
  return names;
}

Fd memory_file(const char* name, uint64_t size) {
  Fd fd(check(::memfd_create(name, MFD_CLOEXEC), "making a memory file"));
  resize_file(fd.get(), size, "sizing a memory file");
  return fd;
}

Fd memory_program(const char* name, ByteView program) {
  // Linux 6.3 wants to be told that it will be run; before, it could be, and the flag is not known.
  constexpr unsigned kExecutable = 0x10;  // MFD_EXEC
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = ::memfd_create(name, kFlags | kExecutable);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name, kFlags);
  Fd file(check(fd, "making a program in memory"));
  write_all(file.get(), program);
  check(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
        "sealing a program in memory");
  return file;
}

std::optional<Fd> try_lock_file(const std::string& path) {
  Fd fd = open_own_file(path, O_RDWR | O_CREAT);
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) throw SystemError(errno, "locking " + path);
  }
  return fd;
}

TempDir::TempDir() {
  path_ = (std::filesystem::temp_directory_path() / "mvm-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw SystemError(errno, "making a temporary directory");
}

TempDir::~TempDir() {
  try {
    remove_tree(path_);
  } catch (const Error&) {
    // Scratch space that cannot be removed is the temporary directory's cleaner's business.
  }
}

}
