// Stage 2: an empty root.
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/jail/jail.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::jail {

// Also in the C library's headers of some systems, which cannot be included with <linux/mount.h>.
static constexpr unsigned kRecursiveAttributes =
    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif

[[noreturn]] static void refuse(const std::string& what) {
  throw Error(Kind::Internal, "the jail is not as it should be: " + what);
}

// Stage 1 makes the mount and the pid namespace by one call: who is process 1 of a pid namespace
// below the one that /proc shows is in a mount namespace of its own too. Otherwise what follows
// would take away the host's own root.
static void require_own_namespaces() {
  const std::string status = sys::read_text_file("/proc/self/status", 16 * 1024);
  constexpr std::string_view kField = "\nNSpid:\t";
  const size_t at = status.find(kField);
  if (at == std::string::npos) refuse("/proc/self/status has no NSpid");
  const auto line = std::string_view(status).substr(at + kField.size());
  const auto pids = split(line.substr(0, line.find('\n')), '\t');
  if (pids.size() < 2 || pids.back() != "1")
    refuse("this process is not the first of a pid namespace of its own");
}

// `fd` becomes a mount of its directory alone. Descriptors that were handed to us belong to the
// mounts of another namespace, which cannot be copied; the same directory of ours can.
static void detach_directory(int fd) {
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  std::string path(4096, '\0');
  const ssize_t length = ::readlink(own.c_str(), path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) == path.size())
    throw SystemError(errno, "finding a directory that is kept");
  path.resize(static_cast<size_t>(length));
  const sys::Fd ours = sys::open_file(path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  struct stat handed{};
  struct stat found{};
  sys::check(::fstat(fd, &handed), "reading file status");
  sys::check(::fstat(ours.get(), &found), "reading file status");
  if (handed.st_dev != found.st_dev || handed.st_ino != found.st_ino)
    refuse(path + " is not the directory it was");
  const sys::Fd tree(static_cast<int>(sys::check(
      ::syscall(SYS_open_tree, ours.get(), "",
                AT_EMPTY_PATH | OPEN_TREE_CLONE | static_cast<unsigned>(OPEN_TREE_CLOEXEC)),
      "mounting " + path + " alone")));
  mount_attr attributes{};
  attributes.attr_set = kRecursiveAttributes | MOUNT_ATTR_NOSYMFOLLOW;
  sys::check(
      ::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes),
      "restricting the mount of " + path);
  sys::check(::dup3(tree.get(), fd, O_CLOEXEC), "replacing a descriptor");
}

// A tmpfs that nobody else sees yet, read-only.
static sys::Fd empty_file_system() {
  const sys::Fd context(static_cast<int>(
      sys::check(::syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), "making an empty root")));
  const auto set = [&](const char* key, const char* value) {
    sys::check(::syscall(SYS_fsconfig, context.get(), FSCONFIG_SET_STRING, key, value, 0),
               "making an empty root");
  };
  set("size", "4k");
  set("mode", "0555");
  sys::check(::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0),
             "making an empty root");
  return sys::Fd(static_cast<int>(sys::check(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC,
                                                       kRecursiveAttributes | MOUNT_ATTR_RDONLY),
                                             "mounting an empty root")));
}

static void check_root() {
  if (!sys::list_directory("/").empty()) refuse("the root is not empty");
  if (::mkdir("/x", 0700) == 0 || errno != EROFS) refuse("the root can be written");
  struct stat root{};
  struct stat up{};
  sys::check(::stat("/", &root), "reading file status");
  sys::check(::stat("..", &up), "reading file status");
  if (root.st_dev != up.st_dev || root.st_ino != up.st_ino) refuse("the root has a parent");
}

void leave_file_system(Isolation isolation, std::span<const int> kept) {
  if (isolation == Isolation::None) {
    sys::check(::chdir("/"), "leaving the working directory");
    return;
  }
  require_own_namespaces();
  // What we mount and unmount is nobody else's business.
  sys::check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "making mounts private");
  for (const int fd : kept) detach_directory(fd);
  const sys::Fd before = sys::open_file("/", O_PATH | O_DIRECTORY);
  const sys::Fd root = empty_file_system();
  sys::check(::syscall(SYS_move_mount, root.get(), "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH),
             "attaching an empty root");
  // pivot_root(2), "pivot_root(".", ".")": the old root ends up on top of the new one, and goes.
  sys::check(::fchdir(root.get()), "entering the empty root");
  sys::check(::syscall(SYS_pivot_root, ".", "."), "changing the root");
  sys::check(::fchdir(before.get()), "entering the old root");
  sys::check(::umount2(".", MNT_DETACH), "detaching the old root");
  sys::check(::chdir("/"), "entering the empty root");
  check_root();
}

}
