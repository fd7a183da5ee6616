#include "mvm/store/blobs.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::store {

static constexpr std::string_view kPartial = ".part-";

PartialBlob::~PartialBlob() {
  // While it is locked, so that nobody else's is taken away.
  if (fd_) ::unlink(path_.c_str());
}

sys::Fd Blobs::hold() const {
  sys::Fd fd = sys::open_file(directory_, O_RDONLY | O_DIRECTORY);
  while (::flock(fd.get(), LOCK_SH) != 0)
    if (errno != EINTR) throw SystemError(errno, "locking " + directory_);
  return fd;
}

std::optional<sys::Fd> Blobs::find(const oci::Digest& digest) const {
  const std::string path = directory_ + "/" + digest.hex();
  if (!sys::exists(path)) return std::nullopt;
  try {
    return sys::open_own_file(path, O_RDONLY);
  } catch (const Error& error) {
    if (error.kind() == Kind::NotFound) return std::nullopt;
    throw;
  }
}

std::optional<PartialBlob> Blobs::begin(const oci::Digest& digest) const {
  const std::string path = directory_ + "/" + std::string(kPartial) + digest.hex();
  while (true) {
    auto fd = sys::try_lock_file(path);
    if (!fd) return std::nullopt;
    // Its last holder may have removed or renamed it between our open and our lock.
    struct stat ours{};
    struct stat there{};
    sys::check(::fstat(fd->get(), &ours), "reading status of " + path);
    if (::stat(path.c_str(), &there) != 0 || ours.st_ino != there.st_ino) continue;
    sys::resize_file(fd->get(), 0, "emptying " + path);
    return PartialBlob(path, std::move(*fd));
  }
}

void Blobs::commit(PartialBlob blob, const oci::Digest& digest) const {
  sys::check(::fchmod(blob.fd(), 0400), "setting the mode of " + blob.path_);
  sys::check(sys::uninterrupted([&] { return ::fsync(blob.fd()); }), "syncing " + blob.path_);
  sys::rename_file(blob.path_, directory_ + "/" + digest.hex());
  blob.fd_.reset();
  sys::sync_directory(directory_);
}

void Blobs::remove(const oci::Digest& digest) const {
  sys::remove_file(directory_ + "/" + digest.hex());
}

Blobs::Freed Blobs::prune(const std::set<std::string>& keep, bool dry_run) const {
  Freed freed;
  const sys::Fd lock = sys::open_file(directory_, O_RDONLY | O_DIRECTORY);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return freed;
  for (const std::string& name : sys::list_directory(directory_)) {
    if (keep.contains("sha256:" + name)) continue;
    const std::string path = directory_ + "/" + name;
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) continue;
    ++freed.blobs;
    freed.bytes += static_cast<uint64_t>(status.st_blocks) * 512;
    if (!dry_run) sys::remove_tree(path);
  }
  return freed;
}

}
