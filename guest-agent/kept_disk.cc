// Whether a disk was filled is an attribute of its top folder, written last: a machine that ended
// while it was copied begins anew, with the half of it removed.
#include "kept_disk.h"

#include <cerrno>
#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "disks.h"

namespace mvm::guest {

static constexpr const char* kStage = "/run/mvm-kept";
// Of the trusted ones, which only root of the first user namespace reads and writes.
static constexpr const char* kFilled = "trusted.mvm.filled";
static constexpr std::string_view kOfExt4 = "lost+found";

static void copy_content(int from, int to, const std::string& name) {
  constexpr size_t kPiece = size_t{1} << 20;
  while (sys::check(::sendfile(to, from, nullptr, kPiece), "copying " + name) > 0) {
  }
}

static void set_metadata(int fd, const struct stat& status, const std::string& name) {
  sys::check(::fchown(fd, status.st_uid, status.st_gid), "giving an owner to " + name);
  sys::check(::fchmod(fd, status.st_mode & 07777), "setting the mode of " + name);
  const timespec times[] = {status.st_atim, status.st_mtim};
  sys::check(::futimens(fd, times), "setting the time of " + name);
}

static void copy_symlink(int from, int to, const std::string& name, const struct stat& status) {
  std::string target(PATH_MAX, '\0');
  target.resize(static_cast<size_t>(sys::check(
      ::readlinkat(from, name.c_str(), target.data(), target.size()), "reading the link " + name)));
  sys::check(::symlinkat(target.c_str(), to, name.c_str()), "making the link " + name);
  sys::check(::fchownat(to, name.c_str(), status.st_uid, status.st_gid, AT_SYMLINK_NOFOLLOW),
             "giving an owner to " + name);
  const timespec times[] = {status.st_atim, status.st_mtim};
  sys::check(::utimensat(to, name.c_str(), times, AT_SYMLINK_NOFOLLOW),
             "setting the time of " + name);
}

static void copy_entry(int from, int to, const std::string& name) {
  struct stat status{};
  sys::check(::fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW), "looking at " + name);
  if (S_ISLNK(status.st_mode)) return copy_symlink(from, to, name, status);
  if (S_ISDIR(status.st_mode)) {
    const sys::Fd source = sys::open_at(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    sys::check(::mkdirat(to, name.c_str(), 0700), "making " + name);
    const sys::Fd made = sys::open_at(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    copy_tree(source.get(), made.get());
    set_metadata(made.get(), status, name);
  } else if (S_ISREG(status.st_mode)) {
    const sys::Fd source = sys::open_at(from, name, O_RDONLY | O_NOFOLLOW);
    const sys::Fd made = sys::open_at(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    copy_content(source.get(), made.get(), name);
    set_metadata(made.get(), status, name);
  }
}

void copy_tree(int from, int to) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      ::fdopendir(sys::open_at(from, ".", O_RDONLY | O_DIRECTORY).release()), &::closedir);
  if (!entries) throw SystemError(errno, "reading a folder");
  while (true) {
    errno = 0;  // readdir(3) tells an error from the end by it
    const dirent* entry = ::readdir(entries.get());
    if (entry == nullptr && errno != 0) throw SystemError(errno, "reading a folder");
    if (entry == nullptr) return;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") copy_entry(from, to, name);
  }
}

static void fill(const std::string& path, const sys::Fd& disk) {
  if (::fgetxattr(disk.get(), kFilled, nullptr, 0) >= 0) return;
  for (const std::string& name : sys::list_directory(kStage))
    if (name != kOfExt4) sys::remove_tree(std::string(kStage) + "/" + name);
  const sys::Fd source = sys::open_file(path, O_RDONLY | O_DIRECTORY);
  copy_tree(source.get(), disk.get());
  struct stat status{};
  sys::check(::fstat(source.get(), &status), "looking at " + path);
  set_metadata(disk.get(), status, path);
  sys::check(::syncfs(disk.get()), "syncing the disk for " + path);
  sys::check(::fsetxattr(disk.get(), kFilled, "", 0, 0), "marking the disk for " + path);
}

void mount_kept_disk(const KeptDisk& kept) {
  sys::make_directories(kept.path, 0755);
  sys::make_directories(kStage, 0700);
  mount_writable(kept.device, kStage);
  fill(kept.path, sys::open_file(kStage, O_RDONLY | O_DIRECTORY));
  sys::check(::mount(kStage, kept.path.c_str(), nullptr, MS_MOVE, nullptr),
             "moving the disk to " + kept.path);
  ::rmdir(kStage);
}

}
