#include "place.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"

namespace mvm::guest {

using proto::FilePlace;
using proto::FileStatus;
using proto::FileType;

std::string shown(const FilePlace& place) {
  return printable(place.root.empty() ? place.path : place.root + ": " + place.path);
}

// The kernel gives up with EAGAIN when something on the way is renamed meanwhile; somebody who
// keeps renaming must not keep us.
static constexpr int kTries = 64;

static int open_by(int directory, const std::string& path, open_how how) {
  for (int i = 0; i < kTries; ++i) {
    const long fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EAGAIN && errno != EINTR) return -1;
  }
  errno = EAGAIN;
  return -1;
}

sys::Fd open_place(const FilePlace& place, int flags, unsigned mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  if ((flags & O_PATH) == 0) how.flags |= O_NOCTTY | O_NONBLOCK;
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  sys::Fd root;
  if (!place.root.empty()) {
    open_how top{};
    top.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    top.resolve = RESOLVE_NO_MAGICLINKS;
    root = sys::Fd(sys::check(open_by(AT_FDCWD, place.root, top), printable(place.root)));
    how.resolve |= RESOLVE_BENEATH | RESOLVE_NO_XDEV;
  }
  sys::Fd fd(open_by(root ? root.get() : AT_FDCWD, place.path, how));
  if (fd) return fd;
  if (errno == EXDEV && root)
    throw Error(Kind::Denied, printable(place.path) + " leads out of " + printable(place.root));
  if (errno == ELOOP)
    throw Error(Kind::Denied, shown(place) +
                                  ": a link of /proc, which is not followed, or links "
                                  "without end");
  if (errno == EAGAIN)
    throw Error(Kind::Conflict, shown(place) + " is being renamed without pause");
  throw SystemError(errno, shown(place));
}

Leaf leaf_of(const FilePlace& place) {
  std::string path = place.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  std::string name = slash == path.npos ? path : path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..")
    throw Error(Kind::Invalid, shown(place) + " does not name an entry of a directory");
  FilePlace above{place.root, slash == path.npos ? "." : path.substr(0, slash)};
  if (above.path.empty()) above.path = "/";
  return {open_place(above, O_PATH | O_DIRECTORY), std::move(name)};
}

static FileType type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return FileType::Directory;
    case S_IFLNK:
      return FileType::Symlink;
    case S_IFIFO:
      return FileType::Pipe;
    case S_IFSOCK:
      return FileType::Socket;
    case S_IFCHR:
      return FileType::CharDevice;
    case S_IFBLK:
      return FileType::BlockDevice;
    default:
      return FileType::File;
  }
}

static FileStatus status_from(const struct stat& from) {
  FileStatus status;
  status.type = type_of(from.st_mode);
  status.mode = from.st_mode & 07777;
  status.uid = from.st_uid;
  status.gid = from.st_gid;
  status.size = static_cast<uint64_t>(from.st_size);
  status.allocated = static_cast<uint64_t>(from.st_blocks) * 512;
  status.inode = from.st_ino;
  status.links = from.st_nlink;
  status.mtime_seconds = from.st_mtim.tv_sec;
  status.mtime_nanoseconds = static_cast<uint32_t>(from.st_mtim.tv_nsec);
  return status;
}

static std::string link_target(int directory, const char* name) {
  std::array<char, proto::kMaxPath> text;
  const ssize_t length = ::readlinkat(directory, name, text.data(), text.size());
  return length < 0 ? std::string() : std::string(text.data(), static_cast<size_t>(length));
}

FileStatus status_of(int fd) {
  struct stat found{};
  sys::check(::fstat(fd, &found), "looking at a file");
  FileStatus status = status_from(found);
  if (status.type == FileType::Symlink) status.target = link_target(fd, "");
  return status;
}

FileStatus status_at(int directory, const std::string& name) {
  struct stat found{};
  sys::check(::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW), printable(name));
  FileStatus status = status_from(found);
  if (status.type == FileType::Symlink) status.target = link_target(directory, name.c_str());
  return status;
}

std::string temporary_name() {
  std::array<std::byte, 12> random;
  if (::getrandom(random.data(), random.size(), 0) < 0)
    throw SystemError(errno, "making a file name");
  return ".mvm-" + hex(random) + ".tmp";
}

}
